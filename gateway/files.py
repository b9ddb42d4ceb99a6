"""Customers' files, uploaded or delivered by orders: bytes are objects, facts are rows."""

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

from sqlmodel import col, literal, select, tuple_
from sqlmodel.ext.asyncio.session import AsyncSession

from gateway.errors import GatewayError
from gateway.orders.rows import lock_account
from gateway.store.engine import Store
from gateway.store.objects import ObjectMissing
from gateway.store.tables import (
    OPEN_STATUSES,
    DeliveredFile,
    File,
    FileKind,
    FilePurpose,
    Order,
    new_id,
)
from gateway.store.unnamed import Naming

PIECE_BYTES = 512 * 1024
FILE_ID = re.compile(
    r"file-(?:(?:out|err)-)?[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.ASCII
)


async def keep_upload(
    store: Store,
    account_id: str,
    path: Path,
    *,
    filename: str,
    size: int,
    sha256: str,
    now_ms: int,
) -> File:
    """Keep the file at ``path`` as an input file of the account.

    The row is written last: of a process killed before, the object is swept away later.

    Raises:
        GatewayError: 503 ``gateway_busy``.
    """
    unique, naming = new_id(), Naming()
    row = File(
        id=f"file-{unique}",
        account_id=account_id,
        filename=filename,
        bytes=size,
        sha256=sha256,
        purpose=FilePurpose.BATCH,
        object_key=f"files/{unique}",
        created_at_ms=now_ms,
    )
    await store.objects.put(row.object_key, path)
    async with store.write() as session:
        naming.check()
        session.add(row)
    return row


async def list_files(
    store: Store,
    account_id: str,
    limit: int,
    *,
    purpose: FilePurpose | None = None,
    after: str | None = None,
    oldest_first: bool = False,
) -> tuple[Sequence[File], bool]:
    """Return up to ``limit`` of an account's files in order, and whether there are more.

    Args:
        purpose: of this purpose alone.
        after: the id of the last file of the page before, which may be deleted since.
        oldest_first: else the newest come first.

    Raises:
        GatewayError: 400 for a cursor that is no file of this account.
    """
    wanted = select(File).where(
        col(File.account_id) == account_id, col(File.deleted_at_ms).is_(None)
    )
    if purpose is not None:
        wanted = wanted.where(col(File.purpose) == purpose)
    place = tuple_(col(File.created_at_ms), col(File.id))
    async with store.read() as session:
        if after is not None:
            last = await session.get(File, after)
            if last is None or last.account_id != account_id:
                raise GatewayError(
                    400, "invalid_request", "after must be the id of one of your files.", "after"
                )
            seen = tuple_(literal(last.created_at_ms), literal(last.id))
            wanted = wanted.where(place > seen if oldest_first else place < seen)
        columns = (col(File.created_at_ms), col(File.id))
        order = [column.asc() if oldest_first else column.desc() for column in columns]
        rows = (await session.exec(wanted.order_by(*order).limit(limit + 1))).all()
    return rows[:limit], len(rows) > limit


async def delete_file(store: Store, account_id: str, file_id: str, now_ms: int) -> None:
    """Delete a file of the account: its bytes are gone and its id is unknown from now on.

    Raises:
        GatewayError: 404 ``file_not_found``, or 409 ``file_in_use`` while an open order reads it.
    """
    await find_file(store, account_id, file_id)
    async with store.write() as session:
        # Placing an order locks the account too, and then looks whether its input was deleted.
        await lock_account(session, account_id)
        kept = await session.get_one(File, file_id, with_for_update={"key_share": True})
        if await _open_order(session, file_id):
            raise GatewayError(
                409,
                "file_in_use",
                "An open batch reads this file; it can be deleted once the batch has ended.",
                final=True,
            )
        kept.deleted_at_ms = kept.deleted_at_ms or now_ms
        session.add(kept)
    if kept.object_key:
        await store.objects.delete(kept.object_key)


async def _open_order(session: AsyncSession, file_id: str) -> bool:
    statement = (
        select(Order.id)
        .where(col(Order.input_file_id) == file_id, col(Order.status).in_(OPEN_STATUSES))
        .limit(1)
    )
    return (await session.exec(statement)).first() is not None


async def find_file(store: Store, account_id: str, file_id: str) -> File:
    """Return a file of the account, input or delivered.

    Raises:
        GatewayError: 404 ``file_not_found``, the same for unknown, foreign and deleted ids.
    """
    found = None
    if FILE_ID.fullmatch(file_id) is not None:
        async with store.read() as session:
            found = await session.get(File, file_id)
    if found is None or found.account_id != account_id or found.deleted_at_ms is not None:
        raise no_file()
    return found


def no_file() -> GatewayError:
    """Return the one answer to an unknown, foreign or deleted file."""
    return GatewayError(404, "file_not_found", "There is no such file.")


def check_ready(row: File, param: str | None = None) -> None:
    """Refuse to read a file that is still uploaded in parts.

    Raises:
        GatewayError: 409 ``file_not_ready`` with ``param`` as the field at fault.
    """
    if row.uploading_until_ms is not None:
        raise GatewayError(
            409, "file_not_ready", "The file is still being uploaded; complete it first.", param
        )


async def find_input(store: Store, account_id: str, file_id: str) -> File:
    """Return an input file that a batch may read.

    Raises:
        GatewayError: 404 ``file_not_found`` or 409 ``file_not_ready``, with ``input_file_id`` as
            the field at fault.
    """
    try:
        found = await find_file(store, account_id, file_id)
    except GatewayError as error:
        raise _no_input() from error
    if found.purpose != FilePurpose.BATCH:
        raise _no_input()
    check_ready(found, "input_file_id")
    return found


async def pieces(store: Store, object_key: str, start: int, end: int) -> AsyncIterator[bytes]:
    """Yield the bytes ``[start, end)`` of an object in small pieces.

    A slow reader holds one piece in memory; with the store's own larger ones many of them would
    add up.
    """
    while start < end:
        piece = await store.objects.get_range(object_key, start, min(PIECE_BYTES, end - start))
        yield piece
        start += len(piece)


Segment = tuple[str, int]
"""An object's key and its size in bytes."""


async def segments_of(store: Store, row: File) -> list[Segment]:
    """Return the objects whose bytes, one after another, are those of a file."""
    if row.object_key:
        return [(row.object_key, row.bytes)]
    kind = FileKind.OUTPUT if row.id.startswith("file-out-") else FileKind.ERRORS
    statement = (
        select(DeliveredFile.object_key, DeliveredFile.bytes)
        .where(col(DeliveredFile.order_id) == row.order_id, col(DeliveredFile.kind) == kind)
        .order_by(col(DeliveredFile.name))
    )
    async with store.read() as session:
        return list((await session.exec(statement)).all())


async def pieces_of(
    store: Store, segments: Sequence[Segment], start: int, end: int
) -> AsyncIterator[bytes]:
    """Yield the bytes ``[start, end)`` of objects one after another, in small pieces."""
    for key, size in segments:
        if start < size and end > 0:
            async for piece in pieces(store, key, max(start, 0), min(end, size)):
                yield piece
        start, end = start - size, end - size


@asynccontextmanager
async def on_local_disk(store: Store, row: File, folder: Path) -> AsyncIterator[Path]:
    """Give the file's bytes as a file of its own in ``folder``, removed on leaving.

    Raises:
        GatewayError: 404 ``file_not_found``: it was deleted meanwhile.
    """
    path = folder / f"{uuid4().hex}.input"
    try:
        with path.open("xb") as file:
            try:
                async for piece in pieces(store, row.object_key, 0, row.bytes):
                    await asyncio.to_thread(file.write, piece)
            except ObjectMissing as error:
                raise _no_input() from error
        yield path
    finally:
        path.unlink(missing_ok=True)


def _no_input() -> GatewayError:
    return GatewayError(404, "file_not_found", "There is no such input file.", "input_file_id")
