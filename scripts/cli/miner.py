"""``reliquary miner``: leases prompts and generates under the forced draw."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scripts.cli import node_setup
from scripts.cli.failure import reported, settings_from
from scripts.cli.node_options import (
    ChainText,
    Env,
    Gateway,
    Hotkey,
    Models,
    OfGateway,
    refuse_options_of_both,
    take_environment,
)

if TYPE_CHECKING:
    from miner.settings import MinerSettings

miner = typer.Typer(invoke_without_command=True)


@miner.callback()
def run(
    context: typer.Context,
    env: Env = None,
    gateway: Gateway = None,
    hotkey: Hotkey = None,
    gateway_hotkey: OfGateway = None,
    chain: ChainText = None,
    engine: Annotated[str | None, typer.Option(help="vllm or transformers.")] = None,
    engine_factory: Annotated[
        str | None, typer.Option(help="Dotted path of another engine, module:name.")
    ] = None,
    dtype: Annotated[
        str | None, typer.Option(help="auto (the model's own), float32, bfloat16 or float16.")
    ] = None,
    max_batch: Annotated[int | None, typer.Option(help="Samples that decode at once.")] = None,
    memory_gib: Annotated[
        float | None, typer.Option(help="Room for attention's keys and values.")
    ] = None,
    threads: Annotated[int | None, typer.Option(help="CPU threads of the model.")] = None,
    max_model_len: Annotated[
        int | None, typer.Option(help="Ids of prompt and completion together.")
    ] = None,
    tensor_parallel: Annotated[
        int | None, typer.Option(help="Devices that share one copy of the model; 1.")
    ] = None,
    max_samples: Annotated[int | None, typer.Option(help="Samples of a unit; 256.")] = None,
    models: Models = None,
    engine_log: Annotated[
        Path | None, typer.Option(help="What the engine prints; a file beside the hotkey.")
    ] = None,
    poll_seconds: Annotated[
        float | None, typer.Option(help="Pause before asking again for work; 1.")
    ] = None,
    wait_seconds: Annotated[
        float | None, typer.Option(help="How long a request waits at the gateway for work; 20.")
    ] = None,
    switch_seconds: Annotated[
        float | None, typer.Option(help="Time without work before another model is loaded; 30.")
    ] = None,
    stop_seconds: Annotated[
        float | None, typer.Option(help="Grace of a unit at the end; 10.")
    ] = None,
) -> None:
    """Generate until Ctrl-C or SIGTERM; `reliquary miner setup` prepares a machine for it.

    Each option can be set as RELIQUARY_MINER_<NAME> too.
    """
    if context.invoked_subcommand is not None:
        refuse_options_of_both(context)
        return
    take_environment(env)
    from miner.settings import MinerSettings

    options = {name: value for name, value in context.params.items() if name != "env"}
    _run(settings_from(MinerSettings, options))


node_setup.add_setup(miner, "miner", "engine", "vllm or transformers; vllm where there is a GPU.")


def _run(settings: "MinerSettings") -> None:
    from miner.engines.base import EngineError
    from miner.node import run_miner
    from protocol.chain.base import ChainError
    from protocol.client import GatewayRefused
    from protocol.keys import HotkeyError
    from scripts.cli.logs import configure_logs

    configure_logs()
    with reported(HotkeyError, GatewayRefused, ChainError, EngineError, OSError):
        run_miner(settings)
