"""What is looked at for each role, in the order in which a start would fail."""

import importlib.util
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from huggingface_hub.constants import HF_HUB_CACHE

from protocol.chain.base import ChainError
from protocol.messages import Demand
from scripts.doctor import chain, keys, machine, memory, network
from scripts.doctor.finding import Finding, broken, doubtful, good

if TYPE_CHECKING:
    from gateway.settings import GatewaySettings
    from miner.settings import MinerSettings
    from validator.settings import ValidatorSettings


async def of_miner(settings: "MinerSettings", clock: Callable[[], float]) -> list[Finding]:
    """Look at all that a miner needs."""
    found, demands = await _node(settings, clock, validator=False)
    found = [machine.packages("miner"), _engine(settings), *found]
    return found + await _hardware(settings.models, demands, wants_gpu=False)


async def of_validator(settings: "ValidatorSettings", clock: Callable[[], float]) -> list[Finding]:
    """Look at all that a validator needs."""
    found, demands = await _node(settings, clock, validator=True)
    found = [machine.packages("validator"), *found]
    return found + await _hardware(settings.models, demands, wants_gpu=settings.device == "cuda")


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
        found.append(keys.hotkey(settings.hotkey)[0])
    else:
        found.append(good("hotkey", f"made at the first start as {settings.hotkey}"))
    found += keys.coldkeys(settings.hotkey, Path.home())
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
    found.append((await chain.chain(settings.chain, time.time, makes=True))[0])
    return found


async def _node(
    settings: "MinerSettings | ValidatorSettings", clock: Callable[[], float], *, validator: bool
) -> tuple[list[Finding], list[Demand]]:
    """Look at a node's keys, its chain and its gateway; return what work waits there too."""
    key, keypair = keys.hotkey(settings.hotkey)
    found = [key, *keys.coldkeys(settings.hotkey, Path.home())]
    option = settings.chain
    if option is None:
        if validator:
            seen = "none is named, so that no weights are set"
            found.append(doubtful("chain", seen, "give --chain"))
    else:
        usable, snapshot = await chain.chain(option, clock)
        found.append(usable)
        if snapshot is not None and keypair is not None:
            on = (option, snapshot, keypair.ss58_address, settings.hotkey)
            found.append(chain.registration(*on, validator=validator))
        if snapshot is None and not settings.gateway:
            return found, []
    try:
        settings = await settings.located(clock)
    except ChainError as error:
        found.append(broken("gateway", str(error), "give --gateway, or correct --chain"))
        return found, []
    asked, demands = await network.gateway(
        settings.gateway, settings.gateway_hotkey, keypair, clock
    )
    return found + asked, demands


async def _hardware(
    models: Path | None, demands: list[Demand], *, wants_gpu: bool
) -> list[Finding]:
    found = [machine.disk(models or Path(HF_HUB_CACHE), machine.NODE_DISK_GIB)]
    if importlib.util.find_spec("torch") is not None:
        found.append(machine.accelerator(wanted=wants_gpu))
    on_gpu = memory.gpu_gib()
    room = memory.host_gib() if on_gpu is None else on_gpu
    found.append(memory.memory(room, on_gpu=on_gpu is not None))
    return found + await memory.ordered_models(demands, room, models)


def _engine(settings: "MinerSettings") -> Finding:
    if importlib.util.find_spec(settings.engine) is None:
        remedy = "pip install 'reliquary-batch[vllm]' on a GPU box, or set --engine transformers"
        return broken("engine", f"{settings.engine} is not installed", remedy)
    return good("engine", f"{settings.engine} is installed; the draw in it is checked at the start")
