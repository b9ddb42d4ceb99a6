"""Uploads in parts: a file is announced, its parts arrive in any order, then it is put together.

Everything that has arrived is rows and objects, so that an upload goes on after a crash of the
gateway where it stood. Parts of files that are whole, deleted or given up are swept away later.
"""

import asyncio
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from uuid import uuid4

from sqlalchemy import ColumnElement
from sqlmodel import and_, col, delete, func, or_, select, update
from sqlmodel.ext.asyncio.session import AsyncSession

from gateway.errors import GatewayError
from gateway.files import find_file, no_file, pieces
from gateway.orders.policy import HOUR
from gateway.orders.rows import lock_account
from gateway.store.engine import Store
from gateway.store.objects import ObjectMissing
from gateway.store.tables import File, FilePurpose, UploadPart, new_id
from gateway.store.unnamed import Naming

PART_BYTES = 8 * 1024 * 1024
MAX_UPLOAD_BYTES = 209_715_200
# Without a new part for so long an upload is given up.
PATIENCE_MS = 24 * HOUR
UPLOAD_RETRY_SECONDS = 60
SHOWN_PARTS = 10
SWEPT_AT_ONCE = 100


def part_count(size: int) -> int:
    """Return how many parts a file of ``size`` bytes has."""
    return -(-size // PART_BYTES)


def part_size(size: int, number: int) -> int:
    """Return the bytes of part ``number``, from 1, of a file of ``size`` bytes."""
    return min(PART_BYTES, size - (number - 1) * PART_BYTES)


async def begin(
    store: Store, account_id: str, filename: str, size: int, limit: int, now_ms: int
) -> File:
    """Announce a file of ``size`` bytes, whose parts are to come.

    Args:
        limit: most uploads of the account that may be in progress.

    Raises:
        GatewayError: 429 ``rate_limited`` where as many are.
    """
    row = File(
        id=f"file-{new_id()}",
        account_id=account_id,
        filename=filename,
        bytes=size,
        sha256="",
        purpose=FilePurpose.BATCH,
        object_key="",
        created_at_ms=now_ms,
        uploading_until_ms=now_ms + PATIENCE_MS,
    )
    in_progress = (
        select(func.count())
        .select_from(File)
        .where(
            col(File.account_id) == account_id,
            col(File.uploading_until_ms).is_not(None),
            col(File.deleted_at_ms).is_(None),
        )
    )
    async with store.write() as session:
        # Beginnings of one account wait in line, so that none passes the limit beside another.
        await lock_account(session, account_id)
        if (await session.exec(in_progress)).one() >= limit:
            raise GatewayError(
                429,
                "rate_limited",
                f"{limit} uploads of the account are in progress; complete or delete one of them.",
                retry_after=UPLOAD_RETRY_SECONDS,
            )
        session.add(row)
    return row


async def expect_part(store: Store, account_id: str, file_id: str, number: int) -> int:
    """Return the bytes that part ``number`` of an upload must have.

    Raises:
        GatewayError: 404 ``file_not_found``; 409 ``upload_completed`` where the file is whole; 400
            ``invalid_part`` where it has no such part.
    """
    row = await find_file(store, account_id, file_id)
    _check_uploading(row)
    parts = part_count(row.bytes)
    if not 1 <= number <= parts:
        raise GatewayError(
            400, "invalid_part", f"The file has the parts 1 to {parts}.", "part_number"
        )
    return part_size(row.bytes, number)


async def keep_part(
    store: Store, file_id: str, number: int, path: Path, size: int, digest: str, now_ms: int
) -> UploadPart:
    """Keep the bytes at ``path`` as a part of an upload, in place of what it was before.

    Args:
        digest: their SHA-256 in hex.

    Raises:
        GatewayError: 404 or 409 where the upload ended meanwhile.
    """
    part = UploadPart(
        file_id=file_id,
        number=number,
        bytes=size,
        sha256=digest,
        # Of its own each time: what another request sends for this part is never overwritten.
        object_key=f"uploads/{file_id}/{number}-{new_id()}",
    )
    naming = Naming()
    await store.objects.put(part.object_key, path)
    try:
        async with store.write() as session:
            naming.check()
            file = await _lock_upload(session, file_id)
            before = await session.get(UploadPart, (file_id, number))
            replaced = None if before is None else before.object_key
            await session.merge(part)
            file.uploading_until_ms = now_ms + PATIENCE_MS
            session.add(file)
    except GatewayError:
        await store.objects.delete(part.object_key)
        raise
    if replaced is not None:
        await store.objects.delete(replaced)
    return part


async def parts_of(store: Store, file_id: str) -> Sequence[UploadPart]:
    """Return the parts of a file that have arrived, by number."""
    statement = (
        select(UploadPart)
        .where(col(UploadPart.file_id) == file_id)
        .order_by(col(UploadPart.number))
    )
    async with store.read() as session:
        return (await session.exec(statement)).all()


async def complete(store: Store, account_id: str, file_id: str, folder: Path, now_ms: int) -> File:
    """Put a file together from its parts and return it; one that is whole stays as it is.

    Args:
        folder: an existing folder for the file while it is put together.

    Raises:
        GatewayError: 404 ``file_not_found``; 409 ``upload_incomplete`` while parts are missing, or
            ``upload_changed`` where a part was sent again meanwhile.
    """
    row = await find_file(store, account_id, file_id)
    if row.uploading_until_ms is None:
        return row
    parts = await parts_of(store, file_id)
    _check_all_there(row, parts)
    path = folder / f"{uuid4().hex}.whole"
    object_key, naming = f"files/{new_id()}", Naming()
    try:
        digest = await _join(store, parts, path)
        await store.objects.put(object_key, path)
    except ObjectMissing as error:
        raise _changed() from error
    finally:
        path.unlink(missing_ok=True)
    try:
        async with store.write() as session:
            naming.check()
            file = await _lock_upload(session, file_id)
            if {part.object_key for part in parts} != await _keys_of_parts(session, file_id):
                raise _changed()
            file.sha256, file.object_key, file.uploading_until_ms = digest, object_key, None
            session.add(file)
    except GatewayError as error:
        await store.objects.delete(object_key)
        if error.code != "upload_completed":
            raise
        # A twin of this request was faster.
        return await find_file(store, account_id, file_id)
    store.announce_news()
    return file


async def sweep(store: Store, now_ms: int) -> None:
    """Give up the uploads that nothing came for, and remove the parts that nobody needs.

    Objects go before their rows: a killed process leaves nothing that is not swept again.
    """
    await _give_up(store, now_ms)
    over = (
        select(UploadPart)
        .join(File, col(File.id) == col(UploadPart.file_id))
        .where(or_(col(File.uploading_until_ms).is_(None), col(File.deleted_at_ms).is_not(None)))
        .limit(SWEPT_AT_ONCE)
    )
    async with store.read() as session:
        parts = (await session.exec(over)).all()
    for part in parts:
        await store.objects.delete(part.object_key)
        async with store.write() as session:
            await session.exec(delete(UploadPart).where(_is(part)))


async def _give_up(store: Store, now_ms: int) -> None:
    overdue = (col(File.uploading_until_ms) <= now_ms, col(File.deleted_at_ms).is_(None))
    async with store.read() as session:
        # The database is written to only where there is something to write.
        if (await session.exec(select(File.id).where(*overdue).limit(1))).first() is None:
            return
    async with store.write() as session:
        await session.exec(update(File).where(*overdue).values(deleted_at_ms=now_ms))


def _is(part: UploadPart) -> ColumnElement[bool]:
    return and_(
        col(UploadPart.file_id) == part.file_id,
        col(UploadPart.number) == part.number,
        col(UploadPart.object_key) == part.object_key,
    )


async def _join(store: Store, parts: Sequence[UploadPart], path: Path) -> str:
    """Write the parts one after another to a new file; return its SHA-256 in hex."""
    whole = sha256()
    with path.open("xb") as file:
        for part in parts:
            async for piece in pieces(store, part.object_key, 0, part.bytes):
                await asyncio.to_thread(whole.update, piece)
                await asyncio.to_thread(file.write, piece)
    return whole.hexdigest()


async def _keys_of_parts(session: AsyncSession, file_id: str) -> set[str]:
    statement = select(UploadPart.object_key).where(col(UploadPart.file_id) == file_id)
    return set((await session.exec(statement)).all())


async def _lock_upload(session: AsyncSession, file_id: str) -> File:
    """Return a file that is being uploaded, locked until the transaction ends.

    Raises:
        GatewayError: 404 or 409 where it is not.
    """
    statement = select(File).where(col(File.id) == file_id).with_for_update(key_share=True)
    file = (await session.exec(statement)).one()
    if file.deleted_at_ms is not None:
        raise no_file()
    _check_uploading(file)
    return file


def _check_uploading(row: File) -> None:
    if row.uploading_until_ms is None:
        raise GatewayError(
            409, "upload_completed", "The file is whole; it takes no more parts.", final=True
        )


def _check_all_there(row: File, parts: Sequence[UploadPart]) -> None:
    wanted = part_count(row.bytes)
    missing = sorted(set(range(1, wanted + 1)) - {part.number for part in parts})
    if not missing:
        return
    shown = ", ".join(map(str, missing[:SHOWN_PARTS]))
    more = f" and {len(missing) - SHOWN_PARTS} more" if len(missing) > SHOWN_PARTS else ""
    message = f"{len(missing)} of {wanted} parts are missing: {shown}{more}."
    raise GatewayError(409, "upload_incomplete", message, final=True)


def _changed() -> GatewayError:
    return GatewayError(
        409, "upload_changed", "A part was sent again meanwhile; complete again.", retry_after=1
    )
