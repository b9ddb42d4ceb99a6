"""``scripts/demo [FILE.jsonl] [--engine NAME] [--out DIR]`` and ``scripts/demo --network``."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from openai import APIError
from rich.console import Console

from protocol.chain.base import ChainError
from protocol.client import GatewayRefused, GatewayUnavailable
from protocol.epochs import RecordFault
from protocol.records import RecordsUnavailable
from scripts.cli.network import EngineChoice
from scripts.fetch import FetchError
from scripts.showcase.customer import DemoError
from scripts.showcase.story import EXAMPLE, run
from scripts.up.layout import NetworkError
from scripts.up.plans import default_engine
from scripts.up.stopping import Stopped, stop_on_signal

INTERRUPTED = 130
EPOCHS = 5
FILE_WIDTH = 140
FAILURES = (
    *(DemoError, NetworkError, APIError, GatewayUnavailable, GatewayRefused),
    *(ChainError, FetchError, RecordsUnavailable, RecordFault, OSError),
)


def demo(
    file: Annotated[
        Path | None, typer.Argument(help="A batch file; by default the example.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for what comes back.")] = Path("demo-out"),
    engine: Annotated[
        EngineChoice, typer.Option(help="auto is vllm where it is installed.")
    ] = EngineChoice.auto,
    network: Annotated[
        bool, typer.Option("--network", help="Ten miners, half of them honest, over epochs.")
    ] = False,
    epochs: Annotated[
        int | None, typer.Option(min=2, max=100, help=f"With --network: {EPOCHS} by default.")
    ] = None,
) -> None:
    """Send a batch through a whole network, one miner of which cheats, and audit it twice.

    Or, with --network: keep ten miners busy for some epochs and show how three validators weigh
    them.
    """
    if network and (file is not None or engine is not EngineChoice.auto):
        raise typer.BadParameter("--network takes neither a file nor --engine")
    if epochs is not None and not network:
        raise typer.BadParameter("--epochs goes with --network")
    stop_on_signal()
    try:
        if network:
            good = _network(epochs or EPOCHS, out.resolve())
        else:
            good = _batch(file or EXAMPLE, out.resolve(), engine)
    except FAILURES as error:
        print(f"demo: {error}", file=sys.stderr)
        sys.exit(1)
    except Stopped:
        sys.exit(INTERRUPTED)
    sys.exit(0 if good else 1)


def _batch(file: Path, out: Path, engine: EngineChoice) -> bool:
    console = Console()
    name = default_engine() if engine is EngineChoice.auto else engine.value
    why = "" if name == "vllm" or engine is not EngineChoice.auto else " (vLLM is not installed)"
    console.print(f"Engine of the miners: {name}{why}")
    return run(file, out, name, console)


def _network(epochs: int, out: Path) -> bool:
    # It draws a picture; the batch's demo need not wait for that library.
    from scripts.strangers.story import run as run_network

    console = Console()
    # The tables are made for a wide screen; a file has room enough.
    if not console.is_terminal:
        console = Console(width=FILE_WIDTH)
    return run_network(epochs, out, console)


if __name__ == "__main__":
    typer.run(demo)
