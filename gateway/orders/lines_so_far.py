"""The verified lines of an order so far, in pages, whether or not it has ended.

What is verified may be taken back until the order is delivered: a second opinion may overrule it.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from sqlmodel import col, select
from tokenizers import Tokenizer

from gateway.intake.outcome import LINES
from gateway.orders.content import object_key, prompt_offsets
from gateway.orders.delivery import heading_of
from gateway.orders.delivery_lines import Decoder, Heading, Line, output_line
from gateway.orders.samples import VERIFIED, ordinals
from gateway.orders.stored_results import sample_ids
from gateway.store.engine import Store
from gateway.store.objects import Objects
from gateway.store.tables import Lease, Order, Unit

# A page ends with the line that takes it past so many bytes.
PAGE_BYTES = 4 * 1024 * 1024
# Roots that are looked at together for one that has something to show.
ROOTS_AT_ONCE = 100
PIECE_BYTES = 256 * 1024
MAX_ENTRY_BYTES = 64 * 1024

_CURSOR = re.compile(r"([0-9]{1,6})-([0-9]{1,12})", re.ASCII)


class BadCursor(ValueError):
    """A text is no cursor of this order."""


@dataclass(frozen=True)
class Cursor:
    """A place between lines: the next line, and where its entry begins in ``lines.jsonl``."""

    index: int = 0
    offset: int = 0

    def __str__(self) -> str:
        return f"{self.index}-{self.offset}"

    @classmethod
    def read(cls, text: str) -> "Cursor":
        """Return the cursor that ``str`` wrote.

        Raises:
            BadCursor: it is none.
        """
        match = _CURSOR.fullmatch(text)
        if match is None:
            raise BadCursor(text)
        return cls(int(match[1]), int(match[2]))


@dataclass(frozen=True)
class Page:
    """Lines as the output has them, each a JSON object; ``more`` tells that there are further."""

    lines: list[bytes]
    after: Cursor
    more: bool


@dataclass(frozen=True)
class _Sample:
    token_ids: list[int]


async def lines_so_far(
    store: Store, order: Order, decoder: Decoder, after: Cursor, limit: int
) -> Page:
    """Return up to ``limit`` lines that have verified samples, from ``after`` on.

    Raises:
        BadCursor: ``after`` is no place in this order.
        ObjectMissing: an object that the rows name is gone.
    """
    heading = heading_of(order)
    entries = _entries(store.objects, order, after)
    at, lines, size = after, list[bytes](), 0
    async for root in _roots_with_samples(store, order, after.index):
        samples = await _verified_ids(store, order, root)
        offsets = await prompt_offsets(store.objects, order.id, root.first_line, root.end_line)
        while at.index < root.end_line:
            if len(lines) >= limit or size >= PAGE_BYTES:
                return Page(lines, at, more=True)
            custom_id, reference, following = await _next_entry(entries)
            held = _of_line(order, at.index, samples)
            if held:
                place = at.index - root.first_line
                length = int(offsets[place + 1] - offsets[place])
                line = Line(at.index, custom_id, length, held, reference)
                encoded = await asyncio.to_thread(_encoded, heading, line, decoder)
                lines.append(encoded)
                size += len(encoded)
            at = Cursor(at.index + 1, following)
    return Page(lines, at, more=False)


@lru_cache(maxsize=2)
def decoder_of(folder: Path) -> Tokenizer:
    """Return the decoder of a commit's folder, which never changes, so the last ones are kept."""
    return Tokenizer.from_file(str(folder / "tokenizer.json"))


def _of_line(order: Order, index: int, samples: Mapping[int, list[int]]) -> dict[int, _Sample]:
    first = index * order.n
    return {
        choice: _Sample(samples[first + choice])
        for choice in range(order.n)
        if first + choice in samples
    }


def _encoded(heading: Heading, line: Line[_Sample], decoder: Decoder) -> bytes:
    return output_line(heading, line, decoder).rstrip(b"\n")


async def _roots_with_samples(store: Store, order: Order, first: int) -> AsyncIterator[Unit]:
    """Yield the root units from line ``first`` on that have a verified sample, by their lines."""
    while True:
        statement = (
            select(Unit)
            .where(
                col(Unit.order_id) == order.id,
                col(Unit.parent_id).is_(None),
                col(Unit.end_line) > first,
            )
            .order_by(col(Unit.first_line))
            .limit(ROOTS_AT_ONCE)
        )
        async with store.read() as session:
            roots = (await session.exec(statement)).all()
        if not roots:
            return
        for root in roots:
            if any(root.verified_bits or b""):
                yield root
        first = roots[-1].end_line


async def _verified_ids(store: Store, order: Order, root: Unit) -> dict[int, list[int]]:
    """Return the ids of the verified samples of a root unit and its descendants, by ordinal."""
    async with store.read() as session:
        units = (await session.exec(select(Unit).where(col(Unit.root_id) == root.id))).all()
        verified = [unit for unit in units if VERIFIED in unit.outcomes]
        leases = [await session.get_one(Lease, unit.result_lease_id) for unit in verified]
    found: dict[int, list[int]] = {}
    for unit, lease in zip(verified, leases, strict=True):
        result = await store.objects.get(lease.object_key or "")
        found |= await asyncio.to_thread(_ids, order, unit, result)
    return found


def _ids(order: Order, unit: Unit, result: bytes) -> dict[int, list[int]]:
    claimed = sample_ids(result)
    return {
        ordinal: claimed[place]
        for place, ordinal in enumerate(ordinals(unit, order.n).tolist())
        if unit.outcomes[place] == VERIFIED
    }


async def _entries(
    objects: Objects, order: Order, after: Cursor
) -> AsyncIterator[tuple[bytes, int]]:
    """Yield the entries of an order's lines from a cursor on, each with where the next begins."""
    key = object_key(order.id, LINES)
    size = await objects.size(key)
    at, rest = after.offset, b""
    while at + len(rest) < size and len(rest) <= MAX_ENTRY_BYTES:
        start = at + len(rest)
        piece = await objects.get_range(key, start, min(PIECE_BYTES, size - start))
        *whole, rest = (rest + piece).split(b"\n")
        for entry in whole:
            at += len(entry) + 1
            yield entry, at


async def _next_entry(
    entries: AsyncIterator[tuple[bytes, int]],
) -> tuple[str, str | None, int]:
    """Return custom_id and reference of the next line, and where the one after it begins."""
    try:
        entry, following = await anext(entries)
        value = json.loads(entry)
        return value["custom_id"], value.get("reference"), following
    except (StopAsyncIteration, ValueError, TypeError, KeyError) as error:
        raise BadCursor from error
