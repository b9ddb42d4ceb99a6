"""What commands about the gateway's store share: opening it, and times as a person writes them."""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from scripts.cli.failure import WRONG_USE, Failure, reported, settings_from

if TYPE_CHECKING:
    from gateway.settings import GatewaySettings
    from gateway.store.engine import Store

T = TypeVar("T")

Data = Annotated[Path | None, typer.Option(help="The gateway's data folder.")]

_SPAN = re.compile(r"([1-9][0-9]{0,5})([mhd])", re.ASCII)
_UNIT_MS = {"m": 60_000, "h": 3_600_000, "d": 86_400_000}


def with_store(
    data: Path | None, work: "Callable[[Store], Awaitable[T]]", *, make: bool = False
) -> T:
    """Run ``work`` on the store of a gateway, which may be serving meanwhile.

    Args:
        data: the gateway's data folder; None reads it from the environment.
        work: raises ``AccountError`` for what cannot be done.
        make: make the store where there is none; else a mistyped folder is told.

    Raises:
        Failure: the store cannot be opened, or the work cannot be done.
    """
    from sqlalchemy.exc import SQLAlchemyError

    from gateway.settings import GatewaySettings
    from gateway.store.engine import Store
    from gateway.store.objects import open_objects

    settings = settings_from(GatewaySettings, {"data": data})
    _check_folder(settings, make)

    async def run() -> T:
        store = await Store.open(
            settings.database_url.get_secret_value(), open_objects(settings.objects_url)
        )
        try:
            return await work(store)
        finally:
            await store.close()

    try:
        with reported(OSError, ValueError):
            return asyncio.run(run())
    except SQLAlchemyError as error:
        # The driver's message may run over lines and show the statement.
        detail = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
        raise Failure(f"the gateway's database cannot be used: {detail}") from error


def _check_folder(settings: "GatewaySettings", make: bool) -> None:
    database = settings.data / "gateway.sqlite"
    if settings.data.exists() and not settings.data.is_dir():
        raise Failure(f"{settings.data} is a file; give the gateway's data folder with --data")
    own = settings.database_url.get_secret_value() == f"sqlite:///{database}"
    if own and not make and not database.exists():
        raise Failure(
            f"{settings.data} is no gateway's data folder; give the one that it runs with, --data"
        )


def now_ms() -> int:
    """Return the time as Unix milliseconds."""
    return time.time_ns() // 1_000_000


def parse_expiry(text: str, now: int) -> int:
    """Return the Unix milliseconds at which something expires.

    Args:
        text: a span from now (``90m``, ``12h``, ``30d``), or a date or time in ISO 8601, in UTC
            where it names no zone.
        now: Unix milliseconds.

    Raises:
        Failure: it is neither, or lies in the past.
    """
    span = _SPAN.fullmatch(text)
    if span is not None:
        return now + int(span[1]) * _UNIT_MS[span[2]]
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise Failure(
            f"--expires: {text[:40]!r} is neither a span such as 12h or 30d nor a date such as "
            "2027-01-31 or 2027-01-31T12:00Z",
            WRONG_USE,
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    at = round(moment.timestamp() * 1_000)
    if at <= now:
        raise Failure(f"--expires: {text[:40]!r} has passed", WRONG_USE)
    return at


def shown_time(at_ms: int | None) -> str:
    """Return a time in UTC to the second, ``-`` for none."""
    if at_ms is None:
        return "-"
    return datetime.fromtimestamp(at_ms // 1_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows under a head, in columns as wide as they need."""
    table = [head, *rows]
    widths = [max(len(row[column]) for row in table) for column in range(len(head))]
    for row in table:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        typer.echo("  ".join(cells).rstrip())
