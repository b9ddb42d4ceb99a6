"""``reliquary validator``: leases what was generated and audits every token."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scripts.cli.failure import reported, settings_from

if TYPE_CHECKING:
    from validator.settings import ValidatorSettings


def validator(
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
    engine: Annotated[
        str | None, typer.Option(help="transformers, or vllm: its prefill; transformers.")
    ] = None,
    dtype: Annotated[
        str | None, typer.Option(help="auto (the model's own), float32, bfloat16 or float16.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="cpu or cuda; cpu.")] = None,
    threads: Annotated[int | None, typer.Option(help="CPU threads of the model.")] = None,
    pack_tokens: Annotated[
        int | None, typer.Option(help="Tokens computed at once; bounds the memory.")
    ] = None,
    max_samples: Annotated[int | None, typer.Option(help="Samples of a unit; 256.")] = None,
    idle_seconds: Annotated[
        float | None, typer.Option(help="Wait where nothing is to be audited; 1.")
    ] = None,
    models: Annotated[
        Path | None, typer.Option(help="Folder of downloaded models; Hugging Face's cache.")
    ] = None,
) -> None:
    """Audit until Ctrl-C or SIGTERM. Each option can be set as RELIQUARY_VALIDATOR_<NAME> too."""
    from validator.settings import ValidatorSettings

    options = {
        "gateway": gateway,
        "hotkey": hotkey,
        "gateway_hotkey": gateway_hotkey,
        "chain": chain,
        "engine": engine,
        "dtype": dtype,
        "device": device,
        "threads": threads,
        "pack_tokens": pack_tokens,
        "max_samples": max_samples,
        "idle_seconds": idle_seconds,
        "models": models,
    }
    _run(settings_from(ValidatorSettings, options))


def _run(settings: "ValidatorSettings") -> None:
    from protocol.chain.base import ChainError
    from protocol.client import GatewayRefused
    from protocol.keys import HotkeyError
    from scripts.cli.logs import configure_logs
    from validator.daemon import run_validator
    from validator.weights import StateError

    configure_logs()
    with reported(HotkeyError, GatewayRefused, ChainError, StateError, OSError):
        run_validator(settings)
