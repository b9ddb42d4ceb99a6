"""``reliquary doctor``: what keeps a role from its work, and what to do about it."""

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scripts.cli.failure import settings_from
from scripts.cli.node_options import (
    ChainText,
    Env,
    Gateway,
    Hotkey,
    Models,
    OfGateway,
    take_environment,
)

if TYPE_CHECKING:
    from scripts.doctor.finding import Finding

doctor = typer.Typer(help="Check what a role needs, with a remedy each.", no_args_is_help=True)


@doctor.command("miner")
def miner(
    env: Env = None,
    gateway: Gateway = None,
    hotkey: Hotkey = None,
    gateway_hotkey: OfGateway = None,
    chain: ChainText = None,
    models: Models = None,
    engine: Annotated[str | None, typer.Option(help="vllm or transformers.")] = None,
) -> None:
    """Check a miner; what is not given is read from RELIQUARY_MINER_<NAME>, as the miner does."""
    options = dict(locals())
    take_environment(options.pop("env"))
    import time

    from miner.settings import MinerSettings
    from scripts.doctor.roles import of_miner

    settings = settings_from(MinerSettings, options)
    _report(lambda: of_miner(settings, time.time))


@doctor.command("validator")
def validator(
    env: Env = None,
    gateway: Gateway = None,
    hotkey: Hotkey = None,
    gateway_hotkey: OfGateway = None,
    chain: ChainText = None,
    models: Models = None,
    device: Annotated[str | None, typer.Option(help="cpu or cuda.")] = None,
) -> None:
    """Check a validator; what is not given is read from RELIQUARY_VALIDATOR_<NAME>."""
    options = dict(locals())
    take_environment(options.pop("env"))
    import time

    from scripts.doctor.roles import of_validator
    from validator.settings import ValidatorSettings

    settings = settings_from(ValidatorSettings, options)
    _report(lambda: of_validator(settings, time.time))


@doctor.command("gateway")
def gateway(
    env: Env = None,
    data: Annotated[Path | None, typer.Option(help="Folder for database and objects.")] = None,
    chain: ChainText = None,
) -> None:
    """Check a gateway; what is not given is read from RELIQUARY_GATEWAY_<NAME>."""
    take_environment(env)
    from gateway.settings import GatewaySettings
    from scripts.doctor.roles import of_gateway

    settings = settings_from(GatewaySettings, {"data": data, "chain": chain})
    _report(lambda: of_gateway(settings))


def _report(look: "Callable[[], Awaitable[list[Finding]]]") -> None:
    """Print the findings; the exit status is 1 where one keeps the role from its work."""
    import asyncio

    from scripts.doctor.printed import count_broken, printed

    found = asyncio.run(_look(look))
    for line in printed(found):
        typer.echo(line)
    broken = count_broken(found)
    if broken:
        typer.echo(f"{broken} of {len(found)} must be mended first", err=True)
        sys.exit(1)


async def _look(look: "Callable[[], Awaitable[list[Finding]]]") -> "list[Finding]":
    return await look()
