"""``scripts/demo [FILE.jsonl] [--out DIR] [--engine vllm|transformers]``."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from openai import APIError
from rich.console import Console

from protocol.client import GatewayUnavailable
from scripts.cli.network import EngineChoice
from scripts.showcase.customer import DemoError
from scripts.showcase.story import EXAMPLE, run
from scripts.up.layout import NetworkError
from scripts.up.plans import default_engine
from scripts.up.stopping import Stopped, stop_on_signal

INTERRUPTED = 130


def demo(
    file: Annotated[Path, typer.Argument(help="A batch file; by default the example.")] = EXAMPLE,
    out: Annotated[Path, typer.Option(help="Folder for what comes back.")] = Path("demo-out"),
    engine: Annotated[
        EngineChoice, typer.Option(help="auto is vllm where it is installed.")
    ] = EngineChoice.auto,
) -> None:
    """Send a batch through a whole network, one miner of which cheats, and audit it twice."""
    console = Console()
    name = default_engine() if engine is EngineChoice.auto else engine.value
    why = "" if name == "vllm" or engine is not EngineChoice.auto else " (vLLM is not installed)"
    console.print(f"Engine of the miners: {name}{why}")
    stop_on_signal()
    try:
        good = run(file, out.resolve(), name, console)
    except (DemoError, NetworkError, APIError, GatewayUnavailable, OSError) as error:
        print(f"demo: {error}", file=sys.stderr)
        sys.exit(1)
    except Stopped:
        sys.exit(INTERRUPTED)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    typer.run(demo)
