"""``reliquary chain``: registering on a local chain; what a chain says of gateway and weights."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scripts.cli.failure import WRONG_USE, Failure, reported

if TYPE_CHECKING:
    from protocol.chain.option import ChainOption

chain = typer.Typer(help="The chain that nodes register on.", no_args_is_help=True)

ChainText = Annotated[str, typer.Option("--chain", help="local:PATH or bittensor:NETWORK:NETUID.")]


@chain.command("register")
def register(
    path: ChainText,
    hotkey: Annotated[Path, typer.Option(help="The node's hotkey file; made where there is none.")],
    coldkey: Annotated[str | None, typer.Option(help="The owner's address; the hotkey's.")] = None,
    validator: Annotated[bool, typer.Option(help="With a validator's permit.")] = False,
    owner: Annotated[bool, typer.Option(help="As the subnet owner's hotkey.")] = False,
) -> None:
    """Register a hotkey on a local chain and print its UID and address."""
    import time

    from protocol.chain.base import ChainError
    from protocol.chain.local import LocalChain
    from protocol.chain.option import LocalOption
    from protocol.keys import HotkeyError, load_or_create_hotkey

    option = _option(path)
    if not isinstance(option, LocalOption):
        raise Failure("--chain: register on a network with btcli subnets register", WRONG_USE)
    with reported(ChainError, HotkeyError, OSError):
        address = load_or_create_hotkey(hotkey).ss58_address
        local = LocalChain(option.path, time.time)
        neuron = local.register(address, coldkey or address, validator_permit=validator)
        if owner:
            local.set_rules(owner_hotkey=address)
    typer.echo(f"{neuron.uid} {address}")


@chain.command("publish")
def publish(
    path: ChainText,
    hotkey: Annotated[Path, typer.Option(help="The gateway's hotkey file.")],
    url: Annotated[str, typer.Option(help="Where nodes reach it, https://gateway.example.")],
) -> None:
    """Write on the chain where the gateway is reached, for nodes that are given the chain alone."""
    import asyncio
    import time
    from contextlib import aclosing

    from protocol.chain.base import ChainError
    from protocol.keys import HotkeyError, load_hotkey

    async def write() -> None:
        async with aclosing(_option(path).open(time.time)) as opened:
            await opened.publish_endpoint(load_hotkey(hotkey), url)

    with reported(ChainError, HotkeyError, OSError):
        asyncio.run(write())


@chain.command("weights")
def weights(
    path: ChainText,
    hotkey: Annotated[str, typer.Option(help="The validator's address.")],
) -> None:
    """Print the weights of a validator as they count now: share of the whole, and address."""
    import asyncio
    import time
    from contextlib import aclosing

    from protocol.chain.base import ChainError, WeightRow

    async def read() -> WeightRow:
        async with aclosing(_option(path).open(time.time)) as opened:
            return await opened.weight_row(hotkey)

    with reported(ChainError, OSError):
        row = asyncio.run(read())
    total = sum(row.weights.values())
    typer.echo(f"at block {row.block}, updated at block {row.updated_at_block}")
    for address, weight in sorted(row.weights.items(), key=lambda item: (-item[1], item[0])):
        typer.echo(f"{100 * weight / total:8.3f} %  {address}")


def _option(text: str) -> "ChainOption":
    from protocol.chain.option import parse_chain

    try:
        return parse_chain(text)
    except ValueError as error:
        raise Failure(f"--chain: {error}", WRONG_USE) from error
