"""Files that an order's end leaves: their objects, and the rows that customers read them by."""

from pathlib import Path
from typing import Protocol

from gateway.store.objects import ObjectExists, Objects
from gateway.store.tables import File, FilePurpose, Order


class ExportDiffers(Exception):
    """An object of an earlier try of this export has another size."""


class Content(Protocol):
    """The size and the SHA-256, in hex, of what was written."""

    @property
    def bytes(self) -> int:
        """The size."""
        ...

    @property
    def sha256(self) -> str:
        """The hex digest."""
        ...


async def put_once(objects: Objects, key: str, content: bytes | Path, size: int) -> None:
    """Store an object of ``size`` bytes, unless an earlier try did.

    Raises:
        ExportDiffers: an earlier try stored another one.
    """
    try:
        await objects.put(key, content)
    except ObjectExists as error:
        # An exporter that died after this object had the same bytes to write; in a manifest only
        # the signature's own randomness differs.
        if await objects.size(key) != size:
            raise ExportDiffers(key) from error


def file_row(order: Order, kind: str, name: str, written: Content, key: str, now_ms: int) -> File:
    """Return the row of an order's ``out`` or ``err`` file, which is called ``name``."""
    return File(
        id=f"file-{kind}-{order.id}",
        account_id=order.account_id,
        order_id=order.id,
        filename=f"batch_{order.id}_{name}.jsonl",
        bytes=written.bytes,
        sha256=written.sha256,
        purpose=FilePurpose.BATCH_OUTPUT,
        object_key=key,
        created_at_ms=now_ms,
    )
