"""Uploads in parts, over both databases and both object stores."""

from hashlib import sha256
from pathlib import Path

import pytest
from sqlmodel import col, select

from gateway import uploads
from gateway.accounts import create_account
from gateway.errors import GatewayError
from gateway.files import delete_file, find_file, find_input, list_files
from gateway.store.engine import Store
from gateway.store.objects import ObjectMissing, Objects, open_objects
from gateway.store.tables import File, FilePurpose, UploadPart

NOW = 1_762_685_000_000
PART = uploads.PART_BYTES
CONTENT = bytes(range(256)) * (PART // 256) + b"the end"


async def begin(store: Store, account_id: str, size: int = len(CONTENT), limit: int = 20) -> File:
    return await uploads.begin(store, account_id, "in.jsonl", size, limit, NOW)


async def send(
    store: Store, folder: Path, row: File, number: int, content: bytes, now_ms: int = NOW
) -> UploadPart:
    path = folder / "part"
    path.write_bytes(content)
    digest = sha256(content).hexdigest()
    return await uploads.keep_part(store, row.id, number, path, len(content), digest, now_ms)


async def parts_left(store: Store) -> list[UploadPart]:
    async with store.read() as session:
        return list((await session.exec(select(UploadPart))).all())


async def code_of(work) -> str:
    with pytest.raises(GatewayError) as refused:
        await work
    return refused.value.code


async def test_a_file_is_put_together(store: Store, tmp_path: Path) -> None:
    mine = (await create_account(store, "mine", NOW)).id
    row = await begin(store, mine)
    assert [await uploads.expect_part(store, mine, row.id, at) for at in (1, 2)] == [PART, 7]
    assert await code_of(uploads.expect_part(store, mine, row.id, 3)) == "invalid_part"
    assert await code_of(find_input(store, mine, row.id)) == "file_not_ready"
    # In any order; what is sent again takes the place of what was there.
    await send(store, tmp_path, row, 2, b"the END")
    assert await code_of(uploads.complete(store, mine, row.id, tmp_path, NOW)) == (
        "upload_incomplete"
    )
    first = await send(store, tmp_path, row, 2, CONTENT[PART:])
    await send(store, tmp_path, row, 1, CONTENT[:PART])
    assert len(await parts_left(store)) == 2
    whole = await uploads.complete(store, mine, row.id, tmp_path, NOW)
    assert (whole.sha256, whole.uploading_until_ms) == (sha256(CONTENT).hexdigest(), None)
    assert await store.objects.get(whole.object_key) == CONTENT
    assert (await find_input(store, mine, row.id)).bytes == len(CONTENT)
    assert await uploads.complete(store, mine, row.id, tmp_path, NOW) == whole
    assert await code_of(uploads.expect_part(store, mine, row.id, 1)) == "upload_completed"
    assert await code_of(send(store, tmp_path, row, 1, CONTENT[:PART])) == "upload_completed"
    await uploads.sweep(store, NOW)
    assert await parts_left(store) == []
    with pytest.raises(ObjectMissing):
        await store.objects.size(first.object_key)
    assert await store.objects.get(whole.object_key) == CONTENT


async def test_parts_lie_in_either_object_store(objects: Objects, tmp_path: Path) -> None:
    store = await Store.open(f"sqlite:///{tmp_path}/gateway.db", objects)
    try:
        mine = (await create_account(store, "mine", NOW)).id
        row = await begin(store, mine)
        for number, content in ((1, CONTENT[:PART]), (2, CONTENT[PART:])):
            await send(store, tmp_path, row, number, content)
        whole = await uploads.complete(store, mine, row.id, tmp_path, NOW)
        assert await objects.get(whole.object_key) == CONTENT
    finally:
        await store.close()


async def test_an_upload_goes_on_in_another_process(database: str, tmp_path: Path) -> None:
    objects = open_objects(f"file://{tmp_path}/objects")
    store = await Store.open(database, objects)
    mine = (await create_account(store, "mine", NOW)).id
    row = await begin(store, mine)
    await send(store, tmp_path, row, 1, CONTENT[:PART])
    await store.close()
    store = await Store.open(database, objects)
    try:
        assert [part.number for part in await uploads.parts_of(store, row.id)] == [1]
        await send(store, tmp_path, row, 2, CONTENT[PART:])
        whole = await uploads.complete(store, mine, row.id, tmp_path, NOW)
        assert whole.sha256 == sha256(CONTENT).hexdigest()
    finally:
        await store.close()


async def test_a_part_that_is_sent_again_while_the_file_is_put_together(
    sqlite_store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = sqlite_store
    mine = (await create_account(store, "mine", NOW)).id
    row = await begin(store, mine, 7)
    await send(store, tmp_path, row, 1, b"the end")
    put = store.objects.put

    async def put_late(key: str, content: bytes | Path) -> None:
        await put(key, content)
        if key.startswith("files/"):
            await send(store, tmp_path, row, 1, b"the END")

    monkeypatch.setattr(store.objects, "put", put_late)
    assert await code_of(uploads.complete(store, mine, row.id, tmp_path, NOW)) == "upload_changed"
    monkeypatch.undo()
    whole = await uploads.complete(store, mine, row.id, tmp_path, NOW)
    assert await store.objects.get(whole.object_key) == b"the END"
    # Of the first try nothing is left.
    assert len(list((tmp_path / "objects" / "files").iterdir())) == 1


async def test_uploads_in_progress_are_limited(store: Store, tmp_path: Path) -> None:
    mine = (await create_account(store, "mine", NOW)).id
    other = (await create_account(store, "other", NOW)).id
    rows = [await begin(store, mine, 7, limit=2) for _ in range(2)]
    assert await code_of(begin(store, mine, 7, limit=2)) == "rate_limited"
    await begin(store, other, 7, limit=2)
    await send(store, tmp_path, rows[0], 1, b"the end")
    await uploads.complete(store, mine, rows[0].id, tmp_path, NOW)
    third = await begin(store, mine, 7, limit=2)
    await delete_file(store, mine, third.id, NOW)
    assert await code_of(find_file(store, mine, third.id)) == "file_not_found"
    await begin(store, mine, 7, limit=2)


async def test_an_abandoned_upload_is_given_up(store: Store, tmp_path: Path) -> None:
    mine = (await create_account(store, "mine", NOW)).id
    row, kept = await begin(store, mine), await begin(store, mine)
    part = await send(store, tmp_path, row, 1, CONTENT[:PART])
    later = NOW + uploads.PATIENCE_MS - 1
    await uploads.sweep(store, later)
    assert len((await list_files(store, mine, 9, purpose=FilePurpose.BATCH))[0]) == 2
    # A part that comes puts the end off.
    await send(store, tmp_path, kept, 2, CONTENT[PART:], later)
    await uploads.sweep(store, NOW + uploads.PATIENCE_MS)
    rows, _ = await list_files(store, mine, 9, purpose=FilePurpose.BATCH)
    assert [one.id for one in rows] == [kept.id]
    assert [one.file_id for one in await parts_left(store)] == [kept.id]
    with pytest.raises(ObjectMissing):
        await store.objects.size(part.object_key)
    assert await code_of(send(store, tmp_path, row, 1, CONTENT[:PART])) == "file_not_found"
    async with store.read() as session:
        statement = select(File.id).where(col(File.deleted_at_ms).is_not(None))
        assert (await session.exec(statement)).all() == [row.id]
