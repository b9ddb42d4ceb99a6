"""``reliquary accounts`` and ``reliquary keys``: who may order."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from scripts.cli.failure import reported, settings_from

if TYPE_CHECKING:
    from gateway.store.engine import Store

accounts = typer.Typer(help="Customers' accounts.", no_args_is_help=True)
keys = typer.Typer(help="API keys of accounts.", no_args_is_help=True)

T = TypeVar("T")

Data = Annotated[Path | None, typer.Option(help="The gateway's data folder.")]


@accounts.command("create")
def create_account(
    name: Annotated[str, typer.Argument(help="1 to 80 letters, digits and _ . @ -")],
    data: Data = None,
) -> None:
    """Create an account, or find the one of this name, and print its id."""
    from gateway.accounts import AccountError, create_account

    async def create(store: "Store") -> str:
        return (await create_account(store, name, _now_ms())).id

    with reported(AccountError):
        typer.echo(_with_store(data, create))


@keys.command("create")
def create_key(
    data: Data = None,
    account: Annotated[str, typer.Option(help="The account's name; made where new.")] = "default",
) -> None:
    """Create an API key and print it, this once: only its hash is stored."""
    from gateway.accounts import ORDERS_WRITE, AccountError, create_account, create_key

    async def create(store: "Store") -> str:
        owner = await create_account(store, account, _now_ms())
        return await create_key(store, owner, [ORDERS_WRITE], _now_ms())

    with reported(AccountError):
        typer.echo(_with_store(data, create))


def _with_store(data: Path | None, work: "Callable[[Store], Awaitable[T]]") -> T:
    from gateway.settings import GatewaySettings
    from gateway.store.engine import Store
    from gateway.store.objects import open_objects

    settings = settings_from(GatewaySettings, {"data": data})

    async def run() -> T:
        store = await Store.open(
            settings.database_url.get_secret_value(), open_objects(settings.objects_url)
        )
        try:
            return await work(store)
        finally:
            await store.close()

    with reported(OSError, ValueError):
        return asyncio.run(run())


def _now_ms() -> int:
    return int(time.time() * 1_000)
