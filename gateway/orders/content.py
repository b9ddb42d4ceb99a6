"""What an order's objects hold, and the work of a unit read from them by range.

They are the files of the intake (``intake/outcome.py``).
"""

import asyncio
import json

import numpy as np

from gateway.intake.outcome import FIRST_SAMPLES, LINES, OFFSETS, PROMPTS, REFUSED
from gateway.orders.samples import ordinals
from gateway.store.objects import Objects
from gateway.store.tables import Order, Unit
from protocol.messages import SampleReference, Work
from protocol.sampling import Sampling

CONTENT = (PROMPTS, OFFSETS, LINES, REFUSED, FIRST_SAMPLES)


def object_key(order_id: str, name: str) -> str:
    """Return the key of one of an order's objects."""
    return f"orders/{order_id}/{name}"


def sampling_of(order: Order) -> Sampling:
    """Return the sampling that all samples of ``order`` share."""
    return Sampling(
        temperature=order.temperature,
        top_p=order.top_p,
        top_k=order.top_k,
        min_p=order.min_p,
        max_tokens=order.max_tokens,
    )


async def prompt_offsets(objects: Objects, order_id: str, first: int, end: int) -> np.ndarray:
    """Return where the prompts of the lines ``[first, end)`` begin, int64 of ``end - first + 1``.

    The last entry is where the last of them ends. Counted in ids.

    Raises:
        ObjectMissing: the order's objects are gone.
    """
    raw = await objects.get_range(object_key(order_id, OFFSETS), 8 * first, 8 * (end - first + 1))
    return np.frombuffer(raw, dtype="<u8").astype(np.int64)


async def unit_work(objects: Objects, order: Order, unit: Unit) -> Work:
    """Return the work of a unit, reading no more than the prompts of its lines.

    Raises:
        ObjectMissing: the order's objects are gone.
    """
    first, end = unit.first_line, unit.end_line
    offsets = await prompt_offsets(objects, order.id, first, end)
    ids = await objects.get_range(
        object_key(order.id, PROMPTS), 4 * int(offsets[0]), 4 * int(offsets[-1] - offsets[0])
    )
    firsts = await objects.get_range(
        object_key(order.id, FIRST_SAMPLES), 4 * first, 4 * (end - first)
    )
    # A unit may come to a million ids; the event loop is not held up by them.
    return await asyncio.to_thread(_work, order, unit, offsets, ids, firsts)


def _work(order: Order, unit: Unit, offsets: np.ndarray, ids: bytes, firsts: bytes) -> Work:
    first = unit.first_line
    prompt_ids = np.frombuffer(ids, dtype="<u4")
    first_samples = np.frombuffer(firsts, dtype="<u4")
    lines, choices = np.divmod(ordinals(unit, order.n), order.n)
    held, places = np.unique(lines, return_inverse=True)
    starts = offsets[held - first] - offsets[0]
    ends = offsets[held - first + 1] - offsets[0]
    return Work(
        unit_id=unit.id,
        model=order.model,
        revision=order.revision,
        seed=order.seed,
        sampling=sampling_of(order),
        vocabulary_size=order.vocabulary_size,
        end_ids=json.loads(order.end_ids_json),
        prompts=[prompt_ids[a:b].tolist() for a, b in zip(starts, ends, strict=True)],
        samples=[
            SampleReference(
                prompt=int(place), sample_index=int(first_samples[line - first]) + int(c)
            )
            for place, line, c in zip(places, lines, choices, strict=True)
        ],
    )
