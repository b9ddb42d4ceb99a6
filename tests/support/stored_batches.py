"""The check of ended batches for tests that have a store and no HTTP."""

import json
from typing import Any

from ended_batch import ENDED, check_against_input, check_places, check_times, parsed
from sqlmodel import col, select

from gateway.api.batch_object import batch_object
from gateway.files import pieces_of, segments_of
from gateway.store.engine import Store
from gateway.store.tables import File, Order


def input_of(prompts: int, n: int, refused: int) -> bytes:
    """The input file of a made-up quote: lines that are refused, then usable ones of ``n``."""
    lines: list[dict[str, Any]] = [{"custom_id": f"bad{at}"} for at in range(refused)]
    lines += [{"custom_id": f"q{at}", "body": {"n": n}} for at in range(prompts)]
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


async def check_stored(store: Store, inputs: dict[str, bytes]) -> None:
    """Check every ended order of a store whose input is known, as its customer would see it.

    Args:
        inputs: the input files by order.
    """
    async with store.read() as session:
        statement = select(Order).where(col(Order.id).in_(inputs), col(Order.status).in_(ENDED))
        orders = (await session.exec(statement)).all()
    for order in orders:
        shown = batch_object(order, None).model_dump(mode="json")
        output = await _rows(store, order.output_file_id)
        errors = await _rows(store, order.error_file_id)
        check_times(shown)
        check_places(shown, output, errors)
        check_against_input(shown, output, errors, inputs[order.id])


async def _rows(store: Store, file_id: str | None) -> list[dict[str, Any]]:
    if file_id is None:
        return []
    async with store.read() as session:
        file = await session.get_one(File, file_id)
    segments = await segments_of(store, file)
    content = b"".join([piece async for piece in pieces_of(store, segments, 0, file.bytes)])
    assert len(content) == file.bytes
    return parsed(content)
