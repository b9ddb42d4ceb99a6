"""Customers' files over both databases and both object stores."""

from hashlib import sha256
from pathlib import Path

import pytest
from exports import run_export

from gateway.accounts import create_account
from gateway.errors import GatewayError
from gateway.files import (
    delete_file,
    find_file,
    find_input,
    keep_upload,
    list_files,
    on_local_disk,
    pieces,
)
from gateway.orders.life import cancel
from gateway.store.engine import Store
from gateway.store.objects import ObjectMissing, Objects
from gateway.store.tables import File, FilePurpose, Order

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


async def inputs(store: Store, account_id: str) -> list[File]:
    rows, more = await list_files(store, account_id, 100, purpose=FilePurpose.BATCH)
    assert not more
    return list(rows)


async def test_files_of_an_account(store: Store, tmp_path: Path) -> None:
    mine = (await create_account(store, "mine", NOW)).id
    other = (await create_account(store, "other", NOW)).id
    rows = [await keep(store, mine, tmp_path, NOW + at) for at in (0, 2, 1)]
    assert [row.id for row in await inputs(store, mine)] == [
        rows[1].id,
        rows[2].id,
        rows[0].id,
    ]
    assert await inputs(store, other) == []
    assert (await find_file(store, mine, rows[0].id)).sha256 == sha256(CONTENT).hexdigest()
    for account, wanted in ((other, rows[0].id), (mine, "file-x"), (mine, "\0"), (mine, "")):
        with pytest.raises(GatewayError) as refused:
            await find_file(store, account, wanted)
        assert (refused.value.status, refused.value.code) == (404, "file_not_found")


async def test_a_deleted_file_is_gone(store: Store, tmp_path: Path) -> None:
    mine = (await create_account(store, "mine", NOW)).id
    other = (await create_account(store, "other", NOW)).id
    row = await keep(store, mine, tmp_path)
    with pytest.raises(GatewayError) as refused:
        await delete_file(store, other, row.id, NOW)
    assert refused.value.code == "file_not_found"
    await delete_file(store, mine, row.id, NOW)
    assert await inputs(store, mine) == []
    with pytest.raises(ObjectMissing):
        await store.objects.size(row.object_key)
    for again in (find_file(store, mine, row.id), delete_file(store, mine, row.id, NOW)):
        with pytest.raises(GatewayError) as refused:
            await again
        assert (refused.value.status, refused.value.code) == (404, "file_not_found")


async def test_pages_of_files(store: Store, tmp_path: Path) -> None:
    mine = (await create_account(store, "mine", NOW)).id
    other = (await create_account(store, "other", NOW)).id
    foreign = await keep(store, other, tmp_path)
    # Two of each time: ids break the tie.
    made = [(await keep(store, mine, tmp_path, NOW + at // 2)).id for at in range(6)]
    for oldest_first in (True, False):
        wanted = made if oldest_first else made[::-1]
        for limit in (1, 2, 4, 6, 7):
            seen: list[str] = []
            more, after = True, None
            while more:
                rows, more = await list_files(
                    store, mine, limit, after=after, oldest_first=oldest_first
                )
                assert 0 < len(rows) <= limit
                seen += [row.id for row in rows]
                after = seen[-1]
            assert seen == wanted
    for cursor in (foreign.id, "nonsense", ""):
        with pytest.raises(GatewayError) as refused:
            await list_files(store, mine, 1, after=cursor)
        assert (refused.value.status, refused.value.param) == (400, "after")
    # Who deletes what he reads still gets to the end.
    await delete_file(store, mine, made[5], NOW)
    rows, more = await list_files(store, mine, 2, after=made[5])
    assert ([row.id for row in rows], more) == ([made[4], made[3]], True)


async def test_a_file_that_an_open_order_reads_stays(world, tmp_path: Path) -> None:
    store, account = world.store, world.account_id
    row = await keep(store, account, tmp_path)
    order = await world.place(input_file_id=row.id)
    with pytest.raises(GatewayError) as refused:
        await delete_file(store, account, row.id, NOW)
    assert (refused.value.status, refused.value.code) == (409, "file_in_use")
    assert (await find_file(store, account, row.id)).id == row.id
    await cancel(store, account, order.id, NOW)
    assert await run_export(world, order, tmp_path)
    await delete_file(store, account, row.id, NOW)
    with pytest.raises(GatewayError) as refused:
        await world.place(input_file_id=row.id)
    assert (refused.value.status, refused.value.code) == (409, "order_refused")
    orders = await world.rows(Order)
    assert [one.id for one in orders] == [order.id]


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
    assert [one.id for one in await inputs(store, mine)] == [row.id]
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
