"""``reliquary doctor``: what keeps a role from its work, and what to do about it."""

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scripts.cli.failure import settings_from

if TYPE_CHECKING:
    from scripts.doctor.finding import Finding

doctor = typer.Typer(help="Check what a role needs, with a remedy each.", no_args_is_help=True)

Gateway = Annotated[str | None, typer.Option("--gateway", help="The gateway's origin.")]
Hotkey = Annotated[Path | None, typer.Option("--hotkey", help="The hotkey file.")]
OfGateway = Annotated[
    str | None, typer.Option("--gateway-hotkey", help="The hotkey that the gateway must have.")
]
Models = Annotated[Path | None, typer.Option("--models", help="Folder of downloaded models.")]


@doctor.command("miner")
def miner(
    gateway: Gateway = None,
    hotkey: Hotkey = None,
    gateway_hotkey: OfGateway = None,
    models: Models = None,
    engine: Annotated[str | None, typer.Option(help="vllm or transformers.")] = None,
) -> None:
    """Check a miner; what is not given is read from RELIQUARY_MINER_<NAME>, as the miner does."""
    options = dict(locals())
    import time

    from miner.settings import MinerSettings
    from scripts.doctor.roles import of_miner

    settings = settings_from(MinerSettings, options)
    _report(lambda: of_miner(settings, time.time))


@doctor.command("validator")
def validator(
    gateway: Gateway = None,
    hotkey: Hotkey = None,
    gateway_hotkey: OfGateway = None,
    models: Models = None,
    device: Annotated[str | None, typer.Option(help="cpu or cuda.")] = None,
) -> None:
    """Check a validator; what is not given is read from RELIQUARY_VALIDATOR_<NAME>."""
    options = dict(locals())
    import time

    from scripts.doctor.roles import of_validator
    from validator.settings import ValidatorSettings

    settings = settings_from(ValidatorSettings, options)
    _report(lambda: of_validator(settings, time.time))


@doctor.command("gateway")
def gateway(
    data: Annotated[Path | None, typer.Option(help="Folder for database and objects.")] = None,
) -> None:
    """Check a gateway; what is not given is read from RELIQUARY_GATEWAY_<NAME>."""
    from gateway.settings import GatewaySettings
    from scripts.doctor.roles import of_gateway

    settings = settings_from(GatewaySettings, {"data": data})
    _report(lambda: of_gateway(settings))


def _report(look: "Callable[[], Awaitable[list[Finding]]]") -> None:
    """Print the findings; the exit status is 1 where one keeps the role from its work."""
    import asyncio

    from scripts.doctor.finding import Level

    signs = {Level.GOOD: "ok", Level.DOUBTFUL: "!!", Level.BROKEN: "NO"}
    found = asyncio.run(_look(look))
    for finding in found:
        typer.echo(f"{signs[finding.level]:<3} {finding.about:<13} {finding.seen}")
        if finding.remedy:
            typer.echo(f"    {'':<13} -> {finding.remedy}")
    broken = sum(finding.level == Level.BROKEN for finding in found)
    if broken:
        typer.echo(f"{broken} of {len(found)} must be mended first", err=True)
        sys.exit(1)


async def _look(look: "Callable[[], Awaitable[list[Finding]]]") -> "list[Finding]":
    return await look()
