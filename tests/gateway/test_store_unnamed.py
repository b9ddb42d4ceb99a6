"""What a killed gateway left in the object store is swept away, and nothing else."""

import time
from collections.abc import AsyncIterator
from hashlib import sha256
from pathlib import Path

import pytest
from exports import run_export
from outcomes import refused
from stored_objects import keys_of
from world import INPUT_FILE, World

from gateway import uploads
from gateway.files import delete_file, keep_upload
from gateway.orders import kept_quotes
from gateway.orders.policy import Policy
from gateway.store import unnamed
from gateway.store.engine import Store
from gateway.store.objects import Objects
from gateway.store.tables import Account, Epoch, File, Order, OutputFormat

TERMS = kept_quotes.Terms(24, OutputFormat.PARQUET, None, None)


@pytest.fixture
async def anywhere(database: str, objects: Objects, tmp_path: Path) -> AsyncIterator[World]:
    """A world over either database and either object store."""
    store = await Store.open(database, objects)
    made = World(store, tmp_path, Policy(unit_samples=4))
    await made.open_account()
    yield made
    await made.readers.close()
    await store.close()


def later() -> int:
    return int(time.time() * 1000) + unnamed.UNNAMED_MS


async def uploaded(world: World) -> File:
    path = world.folder / "in.jsonl"
    path.write_bytes(b"x")
    return await keep_upload(
        world.store,
        world.account_id,
        path,
        filename="in.jsonl",
        size=1,
        sha256=sha256(b"x").hexdigest(),
        now_ms=world.now,
    )


async def half_uploaded(world: World) -> File:
    path = world.folder / "part"
    path.write_bytes(b"x")
    row = await uploads.begin(world.store, world.account_id, "in.jsonl", 1, 20, world.now)
    await uploads.keep_part(world.store, row.id, 1, path, 1, sha256(b"x").hexdigest(), world.now)
    return row


async def test_what_is_named_stays(anywhere: World, model_folder: Path) -> None:
    world, objects = anywhere, anywhere.store.objects
    ended = await world.place(n=2)
    miner, validator = await world.node("miner"), await world.node("validator")
    await world.finish(miner, validator)
    assert await run_export(world, ended, model_folder)
    native = await world.place(((6,),))
    async with world.store.write() as session:
        row = await session.get_one(Order, native.id)
        row.output_format = OutputFormat.PARQUET
        session.add(row)
    await world.finish(miner, validator)
    assert await run_export(world, native, model_folder)
    waiting = await world.place(((7,),))
    lease = await world.lease(miner)
    assert lease is not None
    await kept_quotes.keep_quote(
        world.store,
        world.account_id,
        INPUT_FILE,
        world.quote([[1]]),
        TERMS,
        world.policy,
        world.now,
    )
    await uploaded(world)
    gone, half, whole = (
        await uploaded(world),
        await half_uploaded(world),
        await half_uploaded(world),
    )
    await uploads.complete(world.store, world.account_id, whole.id, world.folder, world.now)
    await objects.put("epochs/7-0123456789abcdef.json", b"x")
    async with world.store.write() as session:
        session.add(
            Epoch(
                number=7,
                digest="ab",
                block=1,
                object_key="epochs/7-0123456789abcdef.json",
                bytes=1,
                created_at_ms=world.now,
            )
        )
    # The result of a live lease, whose miner will send it again, and an epoch's to be written.
    await objects.put(f"orders/{waiting.id}/results/{lease.lease_id}-00.json", b"x")
    await objects.put("epochs/8-0123456789abcdef.json", b"x")
    for foreign in ("else/x", "files/a/b", "orders/x", "epochs/x", "uploads/x"):
        await objects.put(foreign, b"x")
    named = await keys_of(objects)

    result = min(key for key in named if key.startswith(f"orders/{ended.id}/results/"))
    left = {
        "drafts/0",
        "files/0",
        f"uploads/{half.id}/1-0",
        "uploads/file-0/1-0",
        "orders/0/prompts.u32",
        "epochs/7-fedcba9876543210.json",
        f"{result.rpartition('-')[0]}-0123456789abcdef.json",
        f"orders/{native.id}/delivery/00/manifest.json",
    }
    for key in left:
        await objects.put(key, b"x")
    # Its row says that it is deleted; the process died before the object was.
    (of_gone,) = await world.rows(File, File.id == gone.id)
    await delete_file(world.store, world.account_id, gone.id, world.now)
    await objects.put(of_gone.object_key, b"x")
    left.add(of_gone.object_key)

    assert await unnamed.sweep(world.store, int(time.time() * 1000)) == 0
    assert await keys_of(objects) == named | left
    assert await unnamed.sweep(world.store, later()) == len(left)
    assert await keys_of(objects) == named - {of_gone.object_key}


async def test_an_empty_database_beside_a_full_store_sweeps_nothing(
    sqlite_world: World, tmp_path: Path
) -> None:
    """A wrong URL opens a new database, in which nothing names what the right one does."""
    await sqlite_world.place()
    objects = sqlite_world.store.objects
    before = await keys_of(objects)
    wrong = await Store.open(f"sqlite:///{tmp_path}/wrong.db", objects)
    assert await unnamed.sweep(wrong, later()) == 0
    async with wrong.write() as session:
        session.add(Account(name="first", created_at_ms=int(time.time() * 1000) + 1))
    assert await unnamed.sweep(wrong, later()) == 0
    assert await keys_of(objects) == before
    await wrong.close()


async def test_what_was_begun_long_ago_is_not_named(
    sqlite_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine that slept between an object and its row finds the object swept away."""
    world = sqlite_world
    half, real, put = await half_uploaded(world), time.time, world.store.objects.put
    before = await keys_of(world.store.objects)
    slept = 0.0

    async def put_and_sleep(key: str, content: bytes | Path) -> None:
        nonlocal slept
        await put(key, content)
        slept += unnamed.NAMED_WITHIN_SECONDS + 1

    monkeypatch.setattr(world.store.objects, "put", put_and_sleep)
    monkeypatch.setattr(unnamed.time, "time", lambda: real() + slept)
    path = world.folder / "part"
    digest = sha256(b"x").hexdigest()
    for work in (
        world.place(),
        uploaded(world),
        uploads.keep_part(world.store, half.id, 1, path, 1, digest, world.now),
        uploads.complete(world.store, world.account_id, half.id, world.folder, world.now),
    ):
        await refused(work, 503, "gateway_busy")
    monkeypatch.undo()
    assert await world.rows(Order) == []
    await unnamed.sweep(world.store, later())
    assert await keys_of(world.store.objects) == before
    await world.place()
