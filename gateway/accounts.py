"""Accounts and API keys: made by the operator, checked at every request of a customer."""

import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

from sqlmodel import col, select

from gateway.errors import GatewayError
from gateway.store.engine import Store
from gateway.store.tables import Account, AccountState, ApiKey

ORDERS_WRITE = "orders:write"
SCOPES = frozenset({ORDERS_WRITE})
KEY_PATTERN = re.compile(r"rlq_[0-9a-f]{48}", re.ASCII)
DEFAULT_ACCOUNT = "default"
_NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,79}", re.ASCII)
_PREFIX_LENGTH = 12


class AccountError(ValueError):
    """The operator asked for something that cannot be; the message says what is allowed."""


@dataclass(frozen=True)
class Principal:
    """Who is asking: an open account, by one of its keys."""

    account_id: str
    key_id: str
    scopes: frozenset[str]


async def create_account(store: Store, name: str, now_ms: int) -> Account:
    """Create an account, or return the one that has this name already.

    Raises:
        AccountError: the name is not 1 to 80 letters, digits and ``_.@-``.
    """
    if _NAME_PATTERN.fullmatch(name) is None:
        raise AccountError("an account name is 1 to 80 of A-Z a-z 0-9 _ . @ - and starts with none")
    async with store.write() as session:
        known = (await session.exec(select(Account).where(Account.name == name))).first()
        if known is not None:
            return known
        account = Account(name=name, created_at_ms=now_ms)
        session.add(account)
        return account


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
        raise AccountError(f"scopes are {', '.join(sorted(SCOPES))}; not {', '.join(unknown)!r}")
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
    return sha256(token.encode("ascii")).hexdigest()
