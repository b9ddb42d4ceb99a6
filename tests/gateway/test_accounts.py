"""Accounts and keys over both databases."""

from collections.abc import Awaitable

import pytest

from gateway.accounts import (
    ORDERS_WRITE,
    AccountError,
    Principal,
    authenticate,
    create_account,
    create_key,
    require_scope,
)
from gateway.errors import GatewayError
from gateway.store.engine import Store
from gateway.store.tables import Account, AccountState, ApiKey

NOW = 1_762_685_000_000


async def refusal(work: Awaitable[Principal]) -> tuple[int, str]:
    with pytest.raises(GatewayError) as refused:
        await work
    return refused.value.status, refused.value.code


async def test_a_key_names_its_account(store: Store) -> None:
    account = await create_account(store, "acme", NOW)
    assert (await create_account(store, "acme", NOW + 1)).id == account.id
    other = await create_account(store, "other", NOW)
    token = await create_key(store, account, [ORDERS_WRITE], NOW)
    assert (await authenticate(store, token, NOW)).account_id == account.id
    theirs = await create_key(store, other, [ORDERS_WRITE], NOW)
    assert (await authenticate(store, theirs, NOW)).account_id == other.id
    assert await refusal(authenticate(store, "rlq_" + "0" * 48, NOW)) == (401, "invalid_api_key")
    assert await refusal(authenticate(store, token + " ", NOW)) == (401, "invalid_api_key")
    assert await refusal(authenticate(store, "", NOW)) == (401, "invalid_api_key")


async def test_a_key_ends(store: Store) -> None:
    account = await create_account(store, "acme", NOW)
    token = await create_key(store, account, [ORDERS_WRITE], NOW, expires_at_ms=NOW + 10)
    principal = await authenticate(store, token, NOW + 9)
    assert await refusal(authenticate(store, token, NOW + 10)) == (401, "invalid_api_key")
    async with store.write() as session:
        key = await session.get(ApiKey, principal.key_id)
        assert key is not None
        key.revoked_at_ms = NOW
        session.add(key)
    assert await refusal(authenticate(store, token, NOW + 1)) == (401, "invalid_api_key")
    with pytest.raises(AccountError):
        await create_key(store, account, [ORDERS_WRITE], NOW, expires_at_ms=NOW)


async def test_a_closed_account_orders_nothing(store: Store) -> None:
    account = await create_account(store, "acme", NOW)
    token = await create_key(store, account, [ORDERS_WRITE], NOW)
    async with store.write() as session:
        row = await session.get(Account, account.id)
        assert row is not None
        row.state = AccountState.CLOSED
        session.add(row)
    assert await refusal(authenticate(store, token, NOW)) == (403, "orders_unavailable")


async def test_what_is_stored_of_a_key_opens_nothing(store: Store) -> None:
    account = await create_account(store, "acme", NOW)
    token = await create_key(store, account, [ORDERS_WRITE], NOW)
    principal = await authenticate(store, token, NOW)
    async with store.read() as session:
        key = await session.get(ApiKey, principal.key_id)
    assert key is not None
    values = [str(value) for value in key.model_dump().values()]
    assert not [value for value in values if token[12:] in value]
    for value in values:
        assert (await refusal(authenticate(store, value, NOW)))[0] == 401


def test_scopes() -> None:
    require_scope(Principal("a", "k", frozenset({ORDERS_WRITE})), ORDERS_WRITE)
    with pytest.raises(GatewayError) as refused:
        require_scope(Principal("a", "k", frozenset()), ORDERS_WRITE)
    assert (refused.value.status, refused.value.code) == (403, "insufficient_scope")


async def test_scopes_that_do_not_exist(store: Store) -> None:
    account = await create_account(store, "acme", NOW)
    for scopes in ([], ["orders:read"], [ORDERS_WRITE, "x"]):
        with pytest.raises(AccountError):
            await create_key(store, account, scopes, NOW)
