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
    what an order delivers. ``bytes`` is the size; ``sha256`` is of the whole file, in hex. A file
    that is still uploaded in parts has ``uploading_until_ms``, the time at which it is given up;
    its ``sha256`` and ``object_key`` are empty until all of it is there. What a native order
    delivers has no object of its own: its bytes are those of its numbered files, joined.
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
    object_key: str = word(index=True)
    created_at_ms: int = big()
    deleted_at_ms: int | None = big(None)
    uploading_until_ms: int | None = big(None, index=True)


class FileKind(StrEnum):
    """What a file of a delivery holds."""

    OUTPUT = "output"
    ERRORS = "errors"
    RECEIPTS = "receipts"
    GRADES = "grades"
    REPORT = "report"
    MANIFEST = "manifest"


class DeliveredFile(Table, table=True):
    """A file of an order's delivery, by its name in it; ``sha256`` in hex."""

    __table_args__ = (one_of("kind", FileKind), CheckConstraint("bytes >= 0", name="bytes"))

    order_id: str = word(primary_key=True, foreign_key="orders.id")
    name: str = word(primary_key=True)
    kind: str = word()
    bytes: int = big()
    sha256: str = word()
    object_key: str = word()


class UploadPart(Table, table=True):
    """A part of a file that has arrived; ``number`` counts from 1.

    A part that is sent again takes the place of the one before. Each is an object until the file
    is put together or given up.
    """

    __table_args__ = (
        CheckConstraint("number >= 1", name="number"),
        CheckConstraint("bytes >= 1", name="bytes"),
    )

    file_id: str = word(primary_key=True, foreign_key="files.id")
    number: int = big(primary_key=True)
    bytes: int = big()
    sha256: str = word()
    object_key: str = word()
