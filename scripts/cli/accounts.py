"""``reliquary accounts``: who may order."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from scripts.cli.stored import Data, now_ms, print_table, shown_time, with_store

if TYPE_CHECKING:
    from gateway.store.engine import Store
    from gateway.store.tables import Account

accounts = typer.Typer(help="Customers' accounts.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="1 to 80 letters, digits and _ . @ -")]


@accounts.command("create")
def create(name: Name, data: Data = None) -> None:
    """Create an account, or find the one of this name, and print its id."""
    from gateway.accounts import create_account

    async def work(store: "Store") -> "Account":
        return await create_account(store, name, now_ms())

    typer.echo(with_store(data, work, make=True).id)


@accounts.command("open")
def open_(name: Name, data: Data = None) -> None:
    """Let a closed account order again, with the keys that it has."""
    _set_state(name, "open", data)


@accounts.command("close")
def close(name: Name, data: Data = None) -> None:
    """Refuse an account's keys from now on; its open orders go on."""
    _set_state(name, "closed", data)


@accounts.command("list")
def list_(data: Data = None) -> None:
    """List all accounts."""
    from gateway.accounts import list_accounts

    async def work(store: "Store") -> "Sequence[Account]":
        return await list_accounts(store)

    rows = [
        (row.id, row.state, shown_time(row.created_at_ms), row.name)
        for row in with_store(data, work)
    ]
    print_table(("ID", "STATE", "CREATED", "NAME"), rows)


def _set_state(name: str, state: str, data: Data) -> None:
    from gateway.accounts import set_account_state
    from gateway.store.tables import AccountState

    async def work(store: "Store") -> "Account":
        return await set_account_state(store, name, AccountState(state))

    account = with_store(data, work)
    typer.echo(f"{account.name} is {account.state}")
