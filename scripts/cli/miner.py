"""``reliquary miner``: leases prompts and generates under the forced draw."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scripts.cli.failure import reported, settings_from

if TYPE_CHECKING:
    from miner.settings import MinerSettings


def miner(
    gateway: Annotated[
        str | None,
        typer.Option(help="The gateway's origin; else it is found on --chain."),
    ] = None,
    hotkey: Annotated[
        Path | None, typer.Option(help="The hotkey file, made where there is none; needed.")
    ] = None,
    gateway_hotkey: Annotated[
        str | None, typer.Option(help="The hotkey that the gateway must have.")
    ] = None,
    chain: Annotated[
        str | None, typer.Option(help="local:PATH or bittensor:NETWORK:NETUID.")
    ] = None,
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
    models: Annotated[
        Path | None, typer.Option(help="Folder of downloaded models; Hugging Face's cache.")
    ] = None,
    engine_log: Annotated[
        Path | None, typer.Option(help="What the engine prints; a file beside the hotkey.")
    ] = None,
    poll_seconds: Annotated[
        float | None, typer.Option(help="Pause before asking again for work; 1.")
    ] = None,
    switch_seconds: Annotated[
        float | None, typer.Option(help="Time without work before another model is loaded; 30.")
    ] = None,
    stop_seconds: Annotated[
        float | None, typer.Option(help="Grace of a unit at the end; 10.")
    ] = None,
) -> None:
    """Generate until Ctrl-C or SIGTERM. Each option can be set as RELIQUARY_MINER_<NAME> too."""
    from miner.settings import MinerSettings

    options = {
        "gateway": gateway,
        "hotkey": hotkey,
        "gateway_hotkey": gateway_hotkey,
        "chain": chain,
        "engine": engine,
        "engine_factory": engine_factory,
        "dtype": dtype,
        "max_batch": max_batch,
        "memory_gib": memory_gib,
        "threads": threads,
        "max_model_len": max_model_len,
        "tensor_parallel": tensor_parallel,
        "max_samples": max_samples,
        "models": models,
        "engine_log": engine_log,
        "poll_seconds": poll_seconds,
        "switch_seconds": switch_seconds,
        "stop_seconds": stop_seconds,
    }
    _run(settings_from(MinerSettings, options))


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
