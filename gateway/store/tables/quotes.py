"""Quotes: each file that was read for an order, for the limit of an account's quotes a day."""

from sqlalchemy import Index

from gateway.store.tables.base import Table, big, new_id, word


class Quote(Table, table=True):
    """A quote that was made; kept as long as it counts."""

    __table_args__ = (Index(None, "account_id", "created_at_ms"),)

    id: str = word(primary_key=True, default_factory=new_id)
    account_id: str = word(foreign_key="accounts.id")
    created_at_ms: int = big()
