"""``reliquary keys``: the API keys of accounts."""

from typing import TYPE_CHECKING, Annotated

import typer

from scripts.cli.stored import Data, now_ms, parse_expiry, print_table, shown_time, with_store

if TYPE_CHECKING:
    from gateway.store.engine import Store
    from gateway.store.tables import Account, ApiKey

keys = typer.Typer(help="API keys of accounts.", no_args_is_help=True)


@keys.command("create")
def create(
    data: Data = None,
    account: Annotated[str, typer.Option(help="The account's name; made where new.")] = "default",
    scope: Annotated[
        list[str] | None, typer.Option(help="What the key may do; orders:write. May be repeated.")
    ] = None,
    expires: Annotated[
        str | None, typer.Option(help="A span such as 12h or 30d, or a date; never.")
    ] = None,
) -> None:
    """Create an API key and print it, this once: only its hash is stored."""
    from gateway.accounts import create_account
    from gateway.api_keys import ORDERS_WRITE, create_key

    now = now_ms()
    expires_at = None if expires is None else parse_expiry(expires, now)

    async def work(store: "Store") -> str:
        owner = await create_account(store, account, now)
        return await create_key(store, owner, scope or [ORDERS_WRITE], now, expires_at)

    typer.echo(with_store(data, work, make=True))


@keys.command("list")
def list_(
    data: Data = None,
    account: Annotated[str | None, typer.Option(help="Of this account alone.")] = None,
) -> None:
    """List API keys by their first characters; nobody can read the rest."""
    from gateway.accounts import find_account
    from gateway.api_keys import list_keys

    async def work(store: "Store") -> "list[tuple[ApiKey, Account]]":
        owner = None if account is None else (await find_account(store, account)).id
        return await list_keys(store, owner)

    now = now_ms()
    rows = [
        (
            key.id,
            key.prefix,
            owner.name,
            _state(key, now),
            key.scopes,
            shown_time(key.created_at_ms),
            shown_time(key.expires_at_ms),
        )
        for key, owner in with_store(data, work)
    ]
    print_table(("ID", "PREFIX", "ACCOUNT", "STATE", "SCOPES", "CREATED", "EXPIRES"), rows)


@keys.command("revoke")
def revoke(
    key: Annotated[str, typer.Argument(help="The key's id or prefix, as `keys list` shows.")],
    data: Data = None,
) -> None:
    """Revoke a key for good: the next request with it is refused."""
    from gateway.api_keys import revoke_key

    async def work(store: "Store") -> "ApiKey":
        return await revoke_key(store, key, now_ms())

    row = with_store(data, work)
    typer.echo(f"{row.prefix} is revoked")


def _state(key: "ApiKey", now: int) -> str:
    if key.revoked_at_ms is not None:
        return "revoked"
    expired = key.expires_at_ms is not None and key.expires_at_ms <= now
    return "expired" if expired else "valid"
