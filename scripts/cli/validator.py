"""``reliquary validator``: leases what was generated and audits every token."""

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
    from validator.settings import ValidatorSettings

validator = typer.Typer(invoke_without_command=True)


@validator.callback()
def run(
    context: typer.Context,
    env: Env = None,
    gateway: Gateway = None,
    hotkey: Hotkey = None,
    gateway_hotkey: OfGateway = None,
    chain: ChainText = None,
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
    wait_seconds: Annotated[
        float | None, typer.Option(help="How long a request waits at the gateway for work; 20.")
    ] = None,
    switch_seconds: Annotated[
        float | None, typer.Option(help="Time without work before another model is loaded; 30.")
    ] = None,
    models: Models = None,
) -> None:
    """Audit until Ctrl-C or SIGTERM; `reliquary validator setup` prepares a machine for it.

    Each option can be set as RELIQUARY_VALIDATOR_<NAME> too.
    """
    if context.invoked_subcommand is not None:
        refuse_options_of_both(context)
        return
    take_environment(env)
    from validator.settings import ValidatorSettings

    options = {name: value for name, value in context.params.items() if name != "env"}
    _run(settings_from(ValidatorSettings, options))


node_setup.add_setup(validator, "validator", "device", "cpu or cuda; cuda where there is a GPU.")


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
