"""Exports of a ``World``'s orders, and what they wrote."""

import json
from pathlib import Path

from sqlmodel import col

from gateway.orders import export
from gateway.store.tables import File, Order, new_id
from protocol.receipts import SampleReceipt


async def run_export(world, order, folder: Path) -> bool:
    return await export.export(
        world.store,
        order.id,
        new_id(),
        lambda model, revision: folder,
        world.keypair,
        world.graders,
        world.folder,
        world.policy,
        lambda: world.now / 1000,
    )


async def content(world, file_id: str | None) -> list[dict]:
    if file_id is None:
        return []
    (file,) = await world.rows(File, col(File.id) == file_id)
    data = await world.store.objects.get(file.object_key)
    assert len(data) == file.bytes
    data.decode("ascii")
    assert not data or data.endswith(b"\n")
    return [json.loads(line) for line in data.splitlines()]


async def receipts_of(world, order: Order) -> list[SampleReceipt]:
    data = await world.store.objects.get(order.receipts_key or "")
    return [SampleReceipt.model_validate_json(line) for line in data.splitlines()]


def text_of(ids: list[int]) -> tuple[str, str]:
    stopped = ids[-1] == 95
    shown = ids[:-1] if stopped else ids
    text = "".join(f" w{value}" for value in shown if value != 94)
    return text, "stop" if stopped else "length"
