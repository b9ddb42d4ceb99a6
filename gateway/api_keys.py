"""API keys: made once in plain text, kept as hashes, checked at every request of a customer."""

import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

from sqlmodel import col, or_, select

from gateway.accounts import AccountError
from gateway.errors import GatewayError
from gateway.store.engine import Store
from gateway.store.tables import Account, AccountState, ApiKey

ORDERS_WRITE = "orders:write"
SCOPES = frozenset({ORDERS_WRITE})
KEY_PATTERN = re.compile(r"rlq_[0-9a-f]{48}", re.ASCII)
_PREFIX_LENGTH = 12


@dataclass(frozen=True)
class Principal:
    """Who is asking: an open account, by one of its keys."""

    account_id: str
    key_id: str
    scopes: frozenset[str]


async def create_key(
    store: Store,
    account: Account,
    scopes: Sequence[str],
    now_ms: int,
    expires_at_ms: int | None = None,
) -> str:
    """Create an API key and return its plain text: the only time that anybody sees it.

    Raises:
        AccountError: a scope does not exist, or the key would be born expired.
    """
    unknown = sorted(set(scopes) - SCOPES)
    if unknown or not scopes:
        found = ", ".join(unknown) or "none"
        raise AccountError(f"a key needs scopes of {', '.join(sorted(SCOPES))}; found {found}")
    if expires_at_ms is not None and expires_at_ms <= now_ms:
        raise AccountError("the key would expire before it exists")
    token = f"rlq_{secrets.token_hex(24)}"
    key = ApiKey(
        account_id=account.id,
        sha256=_digest(token),
        prefix=token[:_PREFIX_LENGTH],
        scopes=" ".join(sorted(set(scopes))),
        created_at_ms=now_ms,
        expires_at_ms=expires_at_ms,
    )
    async with store.write() as session:
        session.add(key)
    return token


async def list_keys(store: Store, account_id: str | None = None) -> list[tuple[ApiKey, Account]]:
    """Return the keys of one account, or of all, with their accounts, oldest first."""
    wanted = select(ApiKey, Account).where(col(ApiKey.account_id) == col(Account.id))
    if account_id is not None:
        wanted = wanted.where(col(ApiKey.account_id) == account_id)
    wanted = wanted.order_by(col(ApiKey.created_at_ms), col(ApiKey.id))
    async with store.read() as session:
        return list((await session.exec(wanted)).all())


async def revoke_key(store: Store, reference: str, now_ms: int) -> ApiKey:
    """Revoke a key for good, from the next request on; a repeat changes nothing.

    Args:
        reference: the key's id, its prefix, or the key itself.

    Raises:
        AccountError: no key is meant, or several are.
    """
    wanted = select(ApiKey).where(
        or_(
            col(ApiKey.id) == reference,
            col(ApiKey.prefix) == reference,
            col(ApiKey.sha256) == _digest(reference),
        )
    )
    async with store.write() as session:
        found = (await session.exec(wanted)).all()
        if not found:
            raise AccountError("no key has this id or prefix; `reliquary keys list` shows them")
        if len(found) > 1:
            ids = ", ".join(key.id for key in found)
            raise AccountError(f"several keys have this prefix; revoke one by its id: {ids}")
        key = found[0]
        if key.revoked_at_ms is None:
            key.revoked_at_ms = now_ms
            session.add(key)
        return key


async def authenticate(store: Store, token: str, now_ms: int) -> Principal:
    """Return whose key ``token`` is.

    Raises:
        GatewayError: 401 ``invalid_api_key``, or 403 ``orders_unavailable`` for a closed account.
    """
    if KEY_PATTERN.fullmatch(token) is None:
        raise invalid_key()
    wanted = select(ApiKey, Account).where(
        ApiKey.sha256 == _digest(token), col(ApiKey.account_id) == col(Account.id)
    )
    async with store.read() as session:
        found = (await session.exec(wanted)).first()
    if found is None:
        raise invalid_key()
    key, account = found
    expired = key.expires_at_ms is not None and key.expires_at_ms <= now_ms
    if expired or key.revoked_at_ms is not None:
        raise invalid_key()
    if account.state != AccountState.OPEN:
        raise GatewayError(403, "orders_unavailable", "This account does not have dataset access.")
    return Principal(account.id, key.id, frozenset(key.scopes.split()))


def require_scope(principal: Principal, scope: str) -> None:
    """Refuse a key that lacks ``scope``.

    Raises:
        GatewayError: 403 ``insufficient_scope``.
    """
    if scope not in principal.scopes:
        raise GatewayError(403, "insufficient_scope", f"This API key does not have {scope}.")


def invalid_key() -> GatewayError:
    """Return the one answer to a missing, malformed, unknown, revoked or expired key."""
    message = "Missing or invalid API key: send Authorization: Bearer rlq_ and 48 hex digits."
    return GatewayError(401, "invalid_api_key", message)


def _digest(token: str) -> str:
    return sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
