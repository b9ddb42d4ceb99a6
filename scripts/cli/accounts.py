"""``reliquary accounts``: who may order, and on what balance."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Annotated
from uuid import uuid4

import typer

from scripts.cli.failure import reported
from scripts.cli.stored import Data, now_ms, print_table, shown_time, with_store

if TYPE_CHECKING:
    from gateway.ledger.balance import Balance
    from gateway.store.engine import Store
    from gateway.store.tables import Account, Transfer

accounts = typer.Typer(help="Customers' accounts.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="1 to 80 letters, digits and _ . @ -")]
Amount = Annotated[str, typer.Argument(help="The amount in USD, such as 25 or 12.50")]
LATEST = 20


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
    """List all accounts with their balances in USD."""
    from gateway.accounts import list_accounts
    from gateway.ledger.balance import balances
    from gateway.ledger.money import usd_of

    async def work(store: "Store") -> "tuple[Sequence[Account], dict[str, Balance]]":
        found = await list_accounts(store)
        return found, await balances(store, [row.id for row in found])

    found, known = with_store(data, work)
    rows = [
        (
            row.id,
            row.state,
            shown_time(row.created_at_ms),
            usd_of(known[row.id].available),
            usd_of(known[row.id].reserved),
            row.name,
        )
        for row in found
    ]
    print_table(("ID", "STATE", "CREATED", "AVAILABLE", "RESERVED", "NAME"), rows)


@accounts.command("credit")
def credit(
    name: Name,
    usd: Amount,
    payment: Annotated[
        str | None,
        typer.Option("--id", help="The payment's own id; the same one again changes nothing."),
    ] = None,
    data: Data = None,
) -> None:
    """Top an account up and print the payment's id."""
    from gateway.accounts import credit_account

    _move(credit_account, name, usd, payment, data)


@accounts.command("debit")
def debit(
    name: Name,
    usd: Amount,
    cause: Annotated[
        str | None,
        typer.Option("--id", help="An id of your own for it; the same one again changes nothing."),
    ] = None,
    data: Data = None,
) -> None:
    """Take money back, such as a mistaken top-up, and print its id; never what orders hold."""
    from gateway.accounts import debit_account

    _move(debit_account, name, usd, cause, data)


@accounts.command("show")
def show(name: Name, data: Data = None) -> None:
    """Show an account's money and its latest transfers."""
    from gateway.accounts import find_account
    from gateway.ledger.balance import balances, latest_transfers
    from gateway.ledger.money import usd_of

    async def work(store: "Store") -> "tuple[Account, Balance, Sequence[Transfer]]":
        account = await find_account(store, name)
        known = await balances(store, [account.id])
        return account, known[account.id], await latest_transfers(store, account.id, LATEST)

    account, balance, latest = with_store(data, work)
    typer.echo(f"{account.name} ({account.id}) is {account.state}")
    for label in ("available", "reserved", "charged", "credited"):
        typer.echo(f"{label:<10} {usd_of(getattr(balance, label))} USD")
    if latest:
        rows = [(shown_time(one.created_at_ms), usd_of(one.amount_nano), one.id) for one in latest]
        print_table(("TIME", "USD", "TRANSFER"), rows)


def _move(
    move: "Callable[[Store, str, int, str, int], Awaitable[Transfer]]",
    name: str,
    usd: str,
    given: str | None,
    data: Data,
) -> None:
    """Move an amount under an id that is ``given`` or new, and print the id."""
    from gateway.ledger.money import nano_of

    cause = str(uuid4()) if given is None else given
    with reported(ValueError):
        amount = nano_of(usd)

    async def work(store: "Store") -> "Transfer":
        return await move(store, name, amount, cause, now_ms())

    with_store(data, work)
    typer.echo(cause)


def _set_state(name: str, state: str, data: Data) -> None:
    from gateway.accounts import set_account_state
    from gateway.store.tables import AccountState

    async def work(store: "Store") -> "Account":
        return await set_account_state(store, name, AccountState(state))

    account = with_store(data, work)
    typer.echo(f"{account.name} is {account.state}")
