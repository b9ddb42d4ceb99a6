"""Files of the customers' API: uploaded input, and the output and errors of an order."""

from enum import StrEnum

from sqlalchemy import CheckConstraint, Index

from gateway.store.tables.base import Table, big, one_of, word


class FilePurpose(StrEnum):
    """What a file is for, in the API's own words."""

    BATCH = "batch"
    BATCH_OUTPUT = "batch_output"


class File(Table, table=True):
    """A file whose bytes are one object.

    ``id`` is ``file-<uuid>`` for input, ``file-out-<order id>`` and ``file-err-<order id>`` for
    what an order delivers. ``bytes`` is the size; ``sha256`` is of the whole file, in hex.
    """

    __table_args__ = (
        one_of("purpose", FilePurpose),
        CheckConstraint("bytes >= 0", name="bytes"),
        Index(None, "account_id", "created_at_ms", "id"),
    )

    id: str = word(primary_key=True)
    account_id: str = word(foreign_key="accounts.id")
    order_id: str | None = word(None, foreign_key="orders.id")
    filename: str = word()
    bytes: int = big()
    sha256: str = word()
    purpose: str = word()
    object_key: str = word()
    created_at_ms: int = big()
    deleted_at_ms: int | None = big(None)
