"""``reliquary up``, the whole network in one command."""

import threading
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from scripts.cheats.kinds import KINDS, NODE_KINDS, UnknownKind, check_kind
from scripts.cli.failure import WRONG_USE, Failure, reported

# Shown below the options of ``up``; the \b keeps the lines as they are.
KINDS_OF_CHEAT = "\b\nKinds of cheat:\n" + "\n".join(
    f"  {name}: {kind.description}" for name, kind in (KINDS | NODE_KINDS).items()
)


class EngineChoice(StrEnum):
    """Which engine the miners use."""

    auto = "auto"
    vllm = "vllm"
    transformers = "transformers"


class DtypeChoice(StrEnum):
    """The dtype of the model's weights."""

    auto = "auto"
    float32 = "float32"
    bfloat16 = "bfloat16"


def up(
    data: Annotated[Path, typer.Option(help="Folder that keeps all.")] = Path("reliquary-data"),
    port: Annotated[int, typer.Option(min=0, max=65_535, help="The gateway's port.")] = 8_000,
    miners: Annotated[int, typer.Option(min=0, max=64, help="Honest miners.")] = 2,
    validators: Annotated[int, typer.Option(min=1, max=16)] = 1,
    engine: Annotated[
        EngineChoice, typer.Option(help="auto is vllm where it is installed.")
    ] = EngineChoice.auto,
    cheat: Annotated[
        list[str] | None,
        typer.Option(metavar="KIND", help="A further miner that cheats; may be repeated."),
    ] = None,
    unit_samples: Annotated[
        int | None, typer.Option(min=1, max=4_096, help="Fixed number of samples of a work unit.")
    ] = None,
    dtype: Annotated[
        DtypeChoice, typer.Option(help="auto is the dtype of the model's config.")
    ] = DtypeChoice.auto,
) -> None:
    """Start a whole network on this machine: hub, chain, gateway, miners, validators.

    Serves the tiny model. Prints base URL and API key once orders can be placed, and writes them to
    reliquary.env in the data folder. Ctrl-C stops everything.
    """
    from scripts.up.layout import NetworkError
    from scripts.up.network import Network
    from scripts.up.plans import MinerPlan, NetworkPlan, default_engine
    from scripts.up.stopping import Stopped, stop_on_signal

    name = default_engine() if engine is EngineChoice.auto else engine.value
    try:
        for kind in cheat or []:
            check_kind(kind)
    except UnknownKind as error:
        raise Failure(f"--cheat: {error}", WRONG_USE) from error
    plan = NetworkPlan(
        data=data.resolve(),
        port=port,
        miners=(*[MinerPlan(name)] * miners, *(MinerPlan(name, kind) for kind in cheat or [])),
        validators=validators,
        dtype=dtype.value,
        unit_samples=unit_samples,
    )
    stop_on_signal()
    network = Network(plan, lambda line: print(line, flush=True))
    print(f"starting {len(plan.miners)} miners ({name}), {validators} validators", flush=True)
    with suppress(Stopped), reported(NetworkError), network:
        print(f"\nbase URL  {network.base_url}\nAPI key   {network.api_key}")
        print(f"model     {network.env()['RELIQUARY_MODEL']} at {network.revision}")
        print(f"          also in {network.layout.environment}; Ctrl-C stops\n", flush=True)
        threading.Event().wait()
