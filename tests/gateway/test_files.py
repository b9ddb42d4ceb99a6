"""Customers' files over both databases and both object stores."""

from hashlib import sha256
from pathlib import Path

import pytest

from gateway.accounts import create_account
from gateway.errors import GatewayError
from gateway.files import find_file, find_input, keep_upload, list_inputs, on_local_disk, pieces
from gateway.store.engine import Store
from gateway.store.objects import Objects
from gateway.store.tables import File, FilePurpose

NOW = 1_762_685_000_000
CONTENT = bytes(range(256)) * 5_000


async def keep(store: Store, account_id: str, folder: Path, at: int = NOW) -> File:
    path = folder / "upload"
    path.write_bytes(CONTENT)
    return await keep_upload(
        store,
        account_id,
        path,
        filename="a.jsonl",
        size=len(CONTENT),
        sha256=sha256(CONTENT).hexdigest(),
        now_ms=at,
    )


async def test_files_of_an_account(store: Store, tmp_path: Path) -> None:
    mine = (await create_account(store, "mine", NOW)).id
    other = (await create_account(store, "other", NOW)).id
    rows = [await keep(store, mine, tmp_path, NOW + at) for at in (0, 2, 1)]
    assert [row.id for row in await list_inputs(store, mine)] == [
        rows[1].id,
        rows[2].id,
        rows[0].id,
    ]
    assert await list_inputs(store, other) == []
    assert (await find_file(store, mine, rows[0].id)).sha256 == sha256(CONTENT).hexdigest()
    for account, wanted in ((other, rows[0].id), (mine, "file-x"), (mine, "\0"), (mine, "")):
        with pytest.raises(GatewayError) as refused:
            await find_file(store, account, wanted)
        assert (refused.value.status, refused.value.code) == (404, "file_not_found")


async def test_a_deleted_file_is_gone(store: Store, tmp_path: Path) -> None:
    mine = (await create_account(store, "mine", NOW)).id
    row = await keep(store, mine, tmp_path)
    async with store.write() as session:
        kept = await session.get(File, row.id)
        assert kept is not None
        kept.deleted_at_ms = NOW
        session.add(kept)
    assert await list_inputs(store, mine) == []
    with pytest.raises(GatewayError):
        await find_file(store, mine, row.id)


async def test_only_input_is_input(store: Store, tmp_path: Path) -> None:
    mine = (await create_account(store, "mine", NOW)).id
    row = await keep(store, mine, tmp_path)
    assert (await find_input(store, mine, row.id)).id == row.id
    output = File(
        **row.model_dump()
        | {"id": row.id.replace("file-", "file-out-"), "purpose": FilePurpose.BATCH_OUTPUT}
    )
    async with store.write() as session:
        session.add(output)
    assert (await find_file(store, mine, output.id)).purpose == FilePurpose.BATCH_OUTPUT
    assert [one.id for one in await list_inputs(store, mine)] == [row.id]
    with pytest.raises(GatewayError) as refused:
        await find_input(store, mine, output.id)
    assert refused.value.param == "input_file_id"


async def test_bytes_from_either_object_store(
    sqlite_store: Store, objects: Objects, tmp_path: Path
) -> None:
    sqlite_store.objects = objects
    mine = (await create_account(sqlite_store, "mine", NOW)).id
    row = await keep(sqlite_store, mine, tmp_path)
    async with on_local_disk(sqlite_store, row, tmp_path) as path:
        assert path.read_bytes() == CONTENT
    assert not path.exists()
    part = [piece async for piece in pieces(sqlite_store, row.object_key, 300, 900_000)]
    assert b"".join(part) == CONTENT[300:900_000]
