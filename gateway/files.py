"""Customers' files, uploaded or delivered by orders: bytes are objects, facts are rows."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

from sqlmodel import col, select

from gateway.errors import GatewayError
from gateway.store.engine import Store
from gateway.store.tables import File, FilePurpose, new_id

LIST_LIMIT = 100
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

    The row is written last: a process killed before leaves an object that nothing names.
    """
    unique = new_id()
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
        session.add(row)
    return row


async def list_inputs(store: Store, account_id: str) -> list[File]:
    """Return the account's newest input files, newest first, at most 100."""
    wanted = (
        select(File)
        .where(
            File.account_id == account_id,
            File.purpose == FilePurpose.BATCH,
            col(File.deleted_at_ms).is_(None),
        )
        .order_by(col(File.created_at_ms).desc(), col(File.id).desc())
        .limit(LIST_LIMIT)
    )
    async with store.read() as session:
        return list((await session.exec(wanted)).all())


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
        raise GatewayError(404, "file_not_found", "There is no such file.")
    return found


async def find_input(store: Store, account_id: str, file_id: str) -> File:
    """Return an input file that a batch may read.

    Raises:
        GatewayError: 404 ``file_not_found`` with ``input_file_id`` as the field at fault.
    """
    try:
        found = await find_file(store, account_id, file_id)
    except GatewayError as error:
        raise _no_input() from error
    if found.purpose != FilePurpose.BATCH:
        raise _no_input()
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


@asynccontextmanager
async def on_local_disk(store: Store, row: File, folder: Path) -> AsyncIterator[Path]:
    """Give the file's bytes as a file of its own in ``folder``, removed on leaving."""
    path = folder / f"{uuid4().hex}.input"
    try:
        with path.open("xb") as file:
            async for piece in pieces(store, row.object_key, 0, row.bytes):
                await asyncio.to_thread(file.write, piece)
        yield path
    finally:
        path.unlink(missing_ok=True)


def _no_input() -> GatewayError:
    return GatewayError(404, "file_not_found", "There is no such input file.", "input_file_id")
