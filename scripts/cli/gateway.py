"""``reliquary gateway``: the customers' API and the dispatch of work."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scripts.cli.failure import reported, settings_from

if TYPE_CHECKING:
    from gateway.settings import GatewaySettings


def gateway(
    data: Annotated[
        Path | None, typer.Option(help="Folder for the database and objects; needed.")
    ] = None,
    host: Annotated[str | None, typer.Option(help="Where HTTP is served; 127.0.0.1.")] = None,
    port: Annotated[int | None, typer.Option(help="Its port; 8000, 0 takes a free one.")] = None,
    hotkey: Annotated[
        Path | None, typer.Option(help="The gateway's hotkey file; made in --data.")
    ] = None,
    chain: Annotated[
        str | None,
        typer.Option(help="local:PATH or bittensor:NETWORK:NETUID; a local one in --data."),
    ] = None,
    objects_url: Annotated[
        str | None, typer.Option(help="file:///FOLDER or s3://BUCKET/PREFIX; in --data.")
    ] = None,
    unit_samples: Annotated[
        int | None, typer.Option(help="Fixed number of samples of a work unit.")
    ] = None,
    lease_seconds: Annotated[
        float | None, typer.Option(help="Life of a lease without a heart-beat; 60.")
    ] = None,
    heartbeat_seconds: Annotated[
        float | None, typer.Option(help="How often a node is asked for one; 15.")
    ] = None,
    audit_backlog: Annotated[
        int | None, typer.Option(help="Units that may wait for audit; 64.")
    ] = None,
    intake_workers: Annotated[
        int | None, typer.Option(help="Processes that read and tokenize files; 1.")
    ] = None,
    prices: Annotated[
        Path | None, typer.Option(help="The price file; that which comes with the gateway.")
    ] = None,
    architecture: Annotated[
        list[str] | None,
        typer.Option(
            help="A supported architectures[0]; may be repeated; else what nodes announce."
        ),
    ] = None,
) -> None:
    """Serve customers and nodes until Ctrl-C or SIGTERM.

    Each option can be set as RELIQUARY_GATEWAY_<NAME> too; the database, where it is not a file in
    --data, as RELIQUARY_GATEWAY_DATABASE_URL alone, since it may hold a password.
    """
    from gateway.settings import GatewaySettings

    options = {
        "data": data,
        "host": host,
        "port": port,
        "hotkey": hotkey,
        "chain": chain,
        "objects_url": objects_url,
        "unit_samples": unit_samples,
        "lease_seconds": lease_seconds,
        "heartbeat_seconds": heartbeat_seconds,
        "audit_backlog": audit_backlog,
        "intake_workers": intake_workers,
        "prices": prices,
        "architectures": architecture,
    }
    _run(settings_from(GatewaySettings, options))


def _run(settings: "GatewaySettings") -> None:
    from gateway.serve import ServeError, serve
    from protocol.chain.base import ChainError
    from protocol.keys import HotkeyError
    from scripts.cli.logs import configure_logs

    configure_logs()
    with reported(ServeError, ChainError, HotkeyError, OSError):
        serve(settings)
