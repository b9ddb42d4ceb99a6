"""What is looked at for each role, in the order in which a start would fail."""

import asyncio
import importlib.util
import time
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING

from huggingface_hub.constants import HF_HUB_CACHE

from protocol.chain.base import ChainError
from protocol.chain.option import ChainOption, LocalOption
from scripts.doctor import machine, network
from scripts.doctor.finding import Finding, broken, good

if TYPE_CHECKING:
    from gateway.settings import GatewaySettings
    from miner.settings import MinerSettings
    from validator.settings import ValidatorSettings


async def of_miner(settings: "MinerSettings", clock: Callable[[], float]) -> list[Finding]:
    """Look at all that a miner needs."""
    found = [machine.packages("miner"), _engine(settings)]
    found += await _node(settings, clock)
    found.append(machine.disk(settings.models or Path(HF_HUB_CACHE), machine.NODE_DISK_GIB))
    if importlib.util.find_spec("torch") is not None:
        found.append(machine.accelerator(wanted=False))
    return found


async def of_validator(settings: "ValidatorSettings", clock: Callable[[], float]) -> list[Finding]:
    """Look at all that a validator needs."""
    found = [machine.packages("validator")]
    found += await _node(settings, clock)
    found.append(machine.disk(settings.models or Path(HF_HUB_CACHE), machine.NODE_DISK_GIB))
    if importlib.util.find_spec("torch") is not None:
        found.append(machine.accelerator(wanted=settings.device == "cuda"))
    return found


async def of_gateway(settings: "GatewaySettings") -> list[Finding]:
    """Look at all that a gateway needs; its database is opened as a start would."""
    from alembic.util import CommandError
    from sqlalchemy.exc import SQLAlchemyError

    from gateway.store.engine import Store
    from gateway.store.objects import open_objects

    found = [
        machine.packages("gateway"),
        machine.disk(settings.data, machine.GATEWAY_DISK_GIB),
        machine.open_files(),
    ]
    if settings.hotkey.exists():
        found.append(network.hotkey(settings.hotkey)[0])
    else:
        found.append(good("hotkey", f"made at the first start as {settings.hotkey}"))
    if found[1].level == "broken":
        return found
    try:
        objects = open_objects(settings.objects_url)
        store = await Store.open(settings.database_url.get_secret_value(), objects)
        await store.close()
    except (SQLAlchemyError, CommandError, ValueError, OSError) as error:
        seen = f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"
        remedy = "correct RELIQUARY_GATEWAY_DATABASE_URL or OBJECTS_URL, or see that it runs"
        found.append(broken("store", seen, remedy))
    else:
        found.append(good("store", "opened, and its tables are up to date"))
    found.append(await _chain(settings.chain))
    return found


async def _node(
    settings: "MinerSettings | ValidatorSettings", clock: Callable[[], float]
) -> list[Finding]:
    key, keypair = network.hotkey(settings.hotkey)
    try:
        settings = await settings.located(clock)
    except ChainError as error:
        return [key, broken("gateway", str(error), "give --gateway, or correct --chain")]
    asked = await network.gateway(settings.gateway, settings.gateway_hotkey, keypair, clock)
    return [key, *asked]


def _engine(settings: "MinerSettings") -> Finding:
    if importlib.util.find_spec(settings.engine) is None:
        remedy = "pip install 'reliquary-batch[vllm]' on a GPU box, or set --engine transformers"
        return broken("engine", f"{settings.engine} is not installed", remedy)
    return good("engine", f"{settings.engine} is installed; the draw in it is checked at the start")


async def _chain(option: ChainOption) -> Finding:
    local = option.path if isinstance(option, LocalOption) else None
    if local is not None and not await asyncio.to_thread(local.exists):
        return good("chain", f"a local one is made at the first start as {local}")
    try:
        async with aclosing(option.open(time.time)) as chain:
            await chain.check()
            snapshot = await chain.snapshot()
    except ChainError as error:
        return broken("chain", str(error), "name another --chain, or mend this one")
    count = len(snapshot.neurons)
    return good("chain", f"block {snapshot.block:,}, {count:,} hotkeys registered")
