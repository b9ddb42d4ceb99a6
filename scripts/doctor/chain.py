"""What the chain says of a role: whether it can be used, and whether a hotkey is on it."""

import asyncio
import shlex
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path

from protocol.chain.base import ChainError, Snapshot
from protocol.chain.option import BittensorOption, ChainOption, LocalOption
from scripts.doctor.finding import Finding, broken, good


async def chain(
    option: ChainOption, clock: Callable[[], float], *, makes: bool = False
) -> tuple[Finding, Snapshot | None]:
    """Say whether a chain is reached and can be used; return its neurons where it is.

    Args:
        option: the chain.
        clock: seconds since the epoch.
        makes: whether the role makes a local chain that is not there yet.
    """
    path = option.path if isinstance(option, LocalOption) else None
    if path is not None and not await asyncio.to_thread(path.exists):
        if makes:
            return good("chain", f"a local one is made at the first start as {path}"), None
        return broken("chain", f"there is no local chain {path}", "correct --chain"), None
    try:
        async with aclosing(option.open(clock)) as opened:
            await opened.check()
            snapshot = await opened.snapshot()
    except ChainError as error:
        return broken("chain", str(error), "name another --chain, or mend this one"), None
    count = len(snapshot.neurons)
    seen = f"{option}: block {snapshot.block:,}, {count:,} hotkeys registered"
    return good("chain", seen), snapshot


def registration(
    option: ChainOption, snapshot: Snapshot, hotkey: str, file: Path, *, validator: bool
) -> Finding:
    """Say whether a hotkey is registered, and a validator's has a permit.

    Args:
        option: the chain that ``snapshot`` is of.
        hotkey: its address.
        file: its file.
    """
    neuron = snapshot.neurons.get(hotkey)
    if neuron is None:
        seen = f"{hotkey} is not registered"
        return broken("registration", seen, to_register(option, hotkey, file, validator=validator))
    if validator and not neuron.validator_permit:
        seen = f"UID {neuron.uid} has no validator's permit"
        return broken("registration", seen, _to_get_a_permit(option, hotkey, file))
    permit = ", with a validator's permit" if validator else ""
    return good("registration", f"UID {neuron.uid}{permit}, owned by {neuron.coldkey}")


def to_register(option: ChainOption, hotkey: str, file: Path, *, validator: bool) -> str:
    """Return the command that registers a hotkey, for the machine that it is given on."""
    if isinstance(option, BittensorOption):
        network, netuid = shlex.quote(option.network), option.netuid
        return (
            f"where your coldkey is: btcli subnets register --network {network} --netuid {netuid} "
            f"--wallet YOUR_WALLET --hotkey {hotkey}"
        )
    permit = " --validator" if validator else ""
    return (
        f"reliquary chain register --chain {shlex.quote(str(option))} "
        f"--hotkey {shlex.quote(str(file))}{permit}"
    )


def _to_get_a_permit(option: ChainOption, hotkey: str, file: Path) -> str:
    if isinstance(option, BittensorOption):
        network, netuid = shlex.quote(option.network), option.netuid
        return (
            "the largest stakes hold one; where your coldkey is: btcli stake add --network "
            f"{network} --netuid {netuid} --wallet YOUR_WALLET --hotkey {hotkey}"
        )
    return to_register(option, hotkey, file, validator=True)
