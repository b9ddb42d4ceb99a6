"""Accounts and their API keys."""

from enum import StrEnum

from gateway.store.tables.base import Table, big, new_id, one_of, word


class AccountState(StrEnum):
    """Whether an account may order."""

    OPEN = "open"
    CLOSED = "closed"


class Account(Table, table=True):
    """A customer: owns files, orders, keys and money."""

    __table_args__ = (one_of("state", AccountState),)

    id: str = word(primary_key=True, default_factory=new_id)
    name: str = word(unique=True)
    state: str = word(AccountState.OPEN)
    created_at_ms: int = big()


class ApiKey(Table, table=True):
    """An API key, of which only the SHA-256 (hex) is kept.

    ``prefix`` are the key's first characters, for a person to tell keys apart. ``scopes`` are
    separated by spaces.
    """

    id: str = word(primary_key=True, default_factory=new_id)
    account_id: str = word(foreign_key="accounts.id", index=True)
    sha256: str = word(unique=True)
    prefix: str = word()
    scopes: str = word()
    created_at_ms: int = big()
    expires_at_ms: int | None = big(None)
    revoked_at_ms: int | None = big(None)
