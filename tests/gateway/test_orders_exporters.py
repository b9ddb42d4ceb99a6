"""Who exports: leases on orders, killed and failing exporters, and their turns."""

import asyncio
from pathlib import Path

import pytest
from exports import content, receipts_of, run_export
from sqlmodel import col

from gateway.orders import background, export
from gateway.orders.content import object_key
from gateway.orders.failing import note_failure
from gateway.store.engine import Store
from gateway.store.tables import File, Order
from protocol.chain.local import LocalChain
from protocol.repository import RepositoryError

PROMPTS = [[1, 2], [3], [1, 2], [4, 5, 6]]


async def test_a_second_exporter_waits_for_the_first_ones_lease(world, model_folder):
    order = await world.place([[1]])
    await world.finish(await world.node("miner"), await world.node("validator"))
    done = await asyncio.gather(*(run_export(world, order, model_folder) for _ in range(4)))
    assert sum(done) == 1
    assert len(await world.rows(File, col(File.order_id) == order.id)) == 1


async def test_a_killed_export_is_resumed_by_another_process(
    database, world, model_folder, monkeypatch
):
    order = await world.place(PROMPTS, n=2)
    await world.finish(await world.node("miner"), await world.node("validator"))
    stuck = asyncio.Event()
    real = export._upload

    async def upload_some_then_hang(objects, order_id, made, manifest):
        await objects.put(object_key(order_id, made.output.path.name), made.output.path)
        stuck.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(export, "_upload", upload_some_then_hang)
    killed = asyncio.create_task(run_export(world, order, model_folder))
    await stuck.wait()
    killed.cancel()
    with pytest.raises(asyncio.CancelledError):
        await killed
    await world.store.close()
    monkeypatch.setattr(export, "_upload", real)
    world.store = await Store.open(database, world.store.objects)
    try:
        assert (await world.order(order)).output_file_id is None
        assert not await run_export(world, order, model_folder)
        world.now += world.policy.export_lease_ms
        assert await run_export(world, order, model_folder)
        order = await world.order(order)
        assert order.status == "completed"
        assert len(await content(world, order.output_file_id)) == 4
        assert len(await receipts_of(world, order)) == 8
    finally:
        await world.store.close()


async def test_an_exporter_that_lost_its_lease_ends_nothing(world, model_folder, monkeypatch):
    order = await world.place([[1]])
    await world.finish(await world.node("miner"), await world.node("validator"))
    real = export.write_delivery

    async def overtaken(store, locked, *rest):
        made = await real(store, locked, *rest)
        async with store.write() as session:
            row = await session.get(Order, locked.id)
            row.export_holder = "another"
            session.add(row)
        return made

    monkeypatch.setattr(export, "write_delivery", overtaken)
    with pytest.raises(export.ExportLost):
        await run_export(world, order, model_folder)
    assert (await world.order(order)).status == "finalizing"
    assert await world.rows(File, col(File.order_id).is_not(None)) == []


async def test_a_late_failure_leaves_another_exporter_its_order(sqlite_world):
    world = sqlite_world
    order = await world.place([[1, 2]])
    await world.finish(await world.node("miner"), await world.node("validator"))
    held = await export._claim(world.store, order.id, "second", world.policy, world.now)
    assert held is not None
    late = RuntimeError("the first one noticed nothing until it failed")
    await note_failure(world.store, order.id, "first", late, world.folder, world.policy, world.now)
    found = await world.order(order)
    assert (found.export_holder, found.export_tries) == ("second", 0)
    await note_failure(world.store, order.id, "second", late, world.folder, world.policy, world.now)
    found = await world.order(order)
    assert (found.export_holder, found.export_tries) == (None, 1)


async def export_all(world, folder_of) -> None:
    await background.export_orders(
        world.store,
        world.policy,
        folder_of,
        world.keypair,
        world.graders,
        world.folder,
        lambda: world.now / 1000,
    )


async def test_an_export_that_keeps_failing_fails_its_order_alone(world, model_folder):
    order = await world.place([[1], [2]], n=2, refused=1)
    await world.finish(await world.node("miner"), await world.node("validator"))

    def vanished(model: str, revision: str) -> Path:
        raise RepositoryError("the commit is gone")

    for attempt in range(1, world.policy.export_tries + 1):
        assert (await world.order(order)).status == "finalizing"
        await export_all(world, vanished)
        assert (await world.order(order)).export_tries == attempt
        # Not tried again before its back-off is over.
        await export_all(world, vanished)
        assert (await world.order(order)).export_tries == attempt
        world.now += 600_000
    order = await world.order(order)
    assert (order.status, order.failure_code) == ("failed", "model_unavailable")
    assert order.failed_at_ms is not None
    errors = await content(world, order.error_file_id)
    assert [row.get("line") or row["error"]["message"] for row in errors] == [
        1, *["0 of 2 samples delivered"] * 2,
    ]  # fmt: skip
    other = await world.place([[2]])
    await world.finish(await world.node("miner"), await world.node("validator"))
    await export_all(world, lambda model, revision: model_folder)
    assert (await world.order(other)).status == "completed"


async def test_an_order_whose_lines_are_gone_fails_without_a_file(sqlite_world, model_folder):
    world = sqlite_world
    order = await world.place([[1]])
    await world.finish(await world.node("miner"), await world.node("validator"))
    await world.store.objects.delete(object_key(order.id, "lines.jsonl"))
    for _ in range(world.policy.export_tries):
        await export_all(world, lambda model, revision: model_folder)
        world.now += 600_000
    order = await world.order(order)
    assert (order.status, order.failure_code) == ("failed", "export_failed")
    assert order.error_file_id is None


async def test_a_failing_export_keeps_no_other_from_its_turn(world, model_folder):
    bad, good = await world.place([[1]]), await world.place([[2]])
    await world.finish(await world.node("miner"), await world.node("validator"))
    await world.store.objects.delete(object_key(bad.id, "lines.jsonl"))
    await export_all(world, lambda model, revision: model_folder)
    assert (await world.order(good)).status == "completed"
    bad = await world.order(bad)
    assert (bad.status, bad.export_tries) == ("finalizing", 1)


async def test_the_background_work_brings_orders_to_their_end(world, model_folder):
    clock = asyncio.get_running_loop().time
    done = await world.place([[1], [2]])
    await world.finish(await world.node("miner"), await world.node("validator"))
    expired = await world.place([[3]])
    # The work's clock is another than the world's, and so are the times.
    world.inputs.clear()
    async with world.store.write() as session:
        row = await session.get(Order, expired.id)
        row.expires_at_ms = 0
        session.add(row)
    work = asyncio.create_task(
        background.run(
            world.store,
            LocalChain(world.folder / "chain.sqlite", clock),
            world.policy,
            lambda model, revision: model_folder,
            world.keypair,
            (),
            world.graders,
            world.folder,
            clock,
        )
    )
    async with asyncio.timeout(60):
        while (await world.order(done)).status != "completed" or (
            await world.order(expired)
        ).status != "expired":
            world.store.announce_news()
            await asyncio.sleep(0.01)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
