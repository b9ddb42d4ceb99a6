"""Accounts and keys over both databases."""

from collections.abc import Awaitable

import pytest

from gateway.accounts import (
    AccountError,
    create_account,
    find_account,
    list_accounts,
    set_account_state,
)
from gateway.api_keys import (
    ORDERS_WRITE,
    Principal,
    authenticate,
    create_key,
    list_keys,
    require_scope,
    revoke_key,
)
from gateway.errors import GatewayError
from gateway.store.engine import Store
from gateway.store.tables import AccountState, ApiKey

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
    assert (await revoke_key(store, principal.key_id, NOW)).revoked_at_ms == NOW
    assert (await revoke_key(store, principal.key_id, NOW + 5)).revoked_at_ms == NOW
    assert await refusal(authenticate(store, token, NOW + 1)) == (401, "invalid_api_key")
    with pytest.raises(AccountError):
        await create_key(store, account, [ORDERS_WRITE], NOW, expires_at_ms=NOW)


async def test_a_closed_account_orders_nothing(store: Store) -> None:
    account = await create_account(store, "acme", NOW)
    token = await create_key(store, account, [ORDERS_WRITE], NOW)
    await set_account_state(store, "acme", AccountState.CLOSED)
    assert await refusal(authenticate(store, token, NOW)) == (403, "orders_unavailable")
    await set_account_state(store, "acme", AccountState.OPEN)
    assert (await authenticate(store, token, NOW)).account_id == account.id
    with pytest.raises(AccountError, match="no account named 'nobody'"):
        await set_account_state(store, "nobody", AccountState.CLOSED)


async def test_accounts_are_listed_by_name(store: Store) -> None:
    for name in ("b", "a", "c"):
        await create_account(store, name, NOW)
    assert [row.name for row in await list_accounts(store)] == ["a", "b", "c"]
    assert (await find_account(store, "b")).name == "b"
    with pytest.raises(AccountError):
        await find_account(store, "d")


async def test_keys_are_listed_and_revoked_by_prefix(store: Store) -> None:
    mine = await create_account(store, "mine", NOW)
    other = await create_account(store, "other", NOW)
    tokens = [
        await create_key(store, account, [ORDERS_WRITE], NOW + at)
        for at, account in enumerate((mine, other, mine))
    ]
    listed = await list_keys(store)
    assert [key.prefix for key, _ in listed] == [token[:12] for token in tokens]
    assert [owner.name for _, owner in listed] == ["mine", "other", "mine"]
    assert [key.prefix for key, _ in await list_keys(store, other.id)] == [tokens[1][:12]]
    await revoke_key(store, tokens[0][:12], NOW)
    await revoke_key(store, tokens[1], NOW)
    for token in tokens[:2]:
        assert await refusal(authenticate(store, token, NOW)) == (401, "invalid_api_key")
    assert (await authenticate(store, tokens[2], NOW)).account_id == mine.id
    for reference in ("", "rlq_", "nothing", tokens[2][:11], tokens[2][:13]):
        with pytest.raises(AccountError, match="no key has"):
            await revoke_key(store, reference, NOW)


async def test_a_prefix_of_two_keys_revokes_neither(store: Store) -> None:
    account = await create_account(store, "acme", NOW)
    tokens = [await create_key(store, account, [ORDERS_WRITE], NOW) for _ in range(2)]
    async with store.write() as session:
        for key, _ in await list_keys(store):
            key.prefix = "rlq_00000000"
            session.add(key)
    with pytest.raises(AccountError, match="by its id") as refused:
        await revoke_key(store, "rlq_00000000", NOW)
    for key, _ in await list_keys(store):
        assert key.id in str(refused.value)
    for token in tokens:
        assert (await authenticate(store, token, NOW)).account_id == account.id


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
