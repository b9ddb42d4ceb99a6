"""What an order's objects hold, and the work of a unit read from them by range.

They are the files of the intake (``intake/outcome.py``).
"""

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gateway.intake.outcome import FIRST_SAMPLES, LINES, OFFSETS, PROMPTS, REFUSED
from gateway.orders.samples import ordinals
from gateway.store.objects import Objects
from gateway.store.tables import Order, Unit
from protocol.messages import SampleReference, Work
from protocol.sampling import Sampling

ID_BYTES = 4
# Prompts of so many ids are read and written in about a millisecond.
FEW_IDS = 8_192
CONTENT = (PROMPTS, OFFSETS, LINES, REFUSED, FIRST_SAMPLES)


def object_key(order_id: str, name: str) -> str:
    """Return the key of one of an order's objects, or of the kept quote that it is placed on."""
    return f"orders/{order_id}/{name}"


async def store_content(objects: Objects, order_id: str, folder: Path) -> None:
    """Store the files of an intake as the objects of an order."""
    for name in CONTENT:
        await objects.put(object_key(order_id, name), folder / name)


def content_bytes(folder: Path) -> int:
    """Return the bytes of what ``store_content`` stores."""
    return sum((folder / name).stat().st_size for name in CONTENT)


async def remove_content(objects: Objects, order_id: str) -> None:
    """Remove what ``store_content`` stored."""
    for name in CONTENT:
        await objects.delete(object_key(order_id, name))


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


@dataclass(frozen=True)
class WorkSource:
    """What a unit's work is made of, with its prompts as they are stored.

    Attributes:
        header: the members of ``Work`` that all units of the order share, and ``unit_id``.
        n: samples a line.
        first_line: of the unit.
        ordinals: of its samples, int64 of shape [samples].
        offsets: where its lines' prompts begin in ``ids`` (``prompt_offsets``).
        ids: their ids, u32 little-endian.
        first_samples: of its lines, u32 little-endian.
    """

    header: dict[str, Any]
    n: int
    first_line: int
    ordinals: np.ndarray
    offsets: np.ndarray
    ids: bytes
    first_samples: bytes

    def work(self) -> Work:
        """Return the work. A unit may come to a million ids: not for the event loop."""
        prompt_ids = np.frombuffer(self.ids, dtype="<u4")
        first_samples = np.frombuffer(self.first_samples, dtype="<u4")
        lines, choices = np.divmod(self.ordinals, self.n)
        held, places = np.unique(lines, return_inverse=True)
        starts = self.offsets[held - self.first_line] - self.offsets[0]
        ends = self.offsets[held - self.first_line + 1] - self.offsets[0]
        return Work(
            **self.header,
            prompts=[prompt_ids[a:b].tolist() for a, b in zip(starts, ends, strict=True)],
            samples=[
                SampleReference(
                    prompt=int(place),
                    sample_index=int(first_samples[line - self.first_line]) + int(choice),
                )
                for place, line, choice in zip(places, lines, choices, strict=True)
            ],
        )


async def unit_work(objects: Objects, order: Order, unit: Unit) -> Work:
    """Return the work of a unit, reading no more than the prompts of its lines.

    Raises:
        ObjectMissing: the order's objects are gone.
    """
    source = await work_source(objects, order, unit)
    if len(source.ids) <= ID_BYTES * FEW_IDS and unit.samples <= FEW_IDS:
        return source.work()
    return await asyncio.to_thread(source.work)


def is_small(work: Work) -> bool:
    """Say whether what is done once with a work takes less time than asking a thread for it."""
    return sum(map(len, work.prompts)) + len(work.samples) <= FEW_IDS


async def work_source(objects: Objects, order: Order, unit: Unit) -> WorkSource:
    """Return what ``unit_work`` is made of.

    Raises:
        ObjectMissing: the order's objects are gone.
    """
    first, end = unit.first_line, unit.end_line
    offsets = await prompt_offsets(objects, order.id, first, end)
    ids = await objects.get_range(
        object_key(order.id, PROMPTS),
        ID_BYTES * int(offsets[0]),
        ID_BYTES * int(offsets[-1] - offsets[0]),
    )
    first_samples = await objects.get_range(
        object_key(order.id, FIRST_SAMPLES), 4 * first, 4 * (end - first)
    )
    header = {
        "unit_id": unit.id,
        "model": order.model,
        "revision": order.revision,
        "seed": order.seed,
        "sampling": sampling_of(order),
        "vocabulary_size": order.vocabulary_size,
        "end_ids": json.loads(order.end_ids_json),
    }
    return WorkSource(header, order.n, first, ordinals(unit, order.n), offsets, ids, first_samples)
