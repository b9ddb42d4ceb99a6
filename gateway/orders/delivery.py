"""Writing a delivery's files to the local disk, one root unit at a time, in flat memory."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import ExitStack, aclosing
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO, Self

from gateway.graders.pool import GraderPool
from gateway.graders.tally import LineGrades
from gateway.intake.outcome import LINES, REFUSED
from gateway.orders.content import object_key, prompt_offsets
from gateway.orders.delivery_lines import (
    Decoder,
    Heading,
    Line,
    missing_line,
    output_line,
    refused_line,
)
from gateway.orders.evaluation import grader_of, keep_evaluation
from gateway.orders.evidence import Delivered, delivered_samples, root_units
from gateway.orders.grading import Grading
from gateway.orders.order_report import order_report
from gateway.orders.report import AuditTally
from gateway.store.engine import Store
from gateway.store.objects import Objects
from gateway.store.tables import Order, Unit
from protocol.manifest import FILES, GRADES, REPORT

# Lines that no unit holds are written in runs of this many.
RUN = 1_000


class Written:
    """A file being written, with its size and SHA-256."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.bytes = 0
        self._hash = sha256()
        self._file: BinaryIO | None = None

    @property
    def sha256(self) -> str:
        """The hex digest of what was written."""
        return self._hash.hexdigest()

    def __enter__(self) -> Self:
        self._file = self.path.open("wb")
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def write(self, content: bytes) -> None:
        """Append bytes."""
        if self._file is None:
            raise RuntimeError("Written is used inside 'with'")
        self._file.write(content)
        self._hash.update(content)
        self.bytes += len(content)


@dataclass(frozen=True)
class Delivery:
    """The files of a delivery but its manifest; lines may be none.

    ``grades`` are those of an evaluation; None where the order is none.
    """

    output: Written
    errors: Written
    receipts: Written
    report: Written
    grades: Written | None

    def files(self) -> list[Written]:
        """Return those that there are."""
        lines = [self.output, self.errors, self.receipts, self.report]
        return lines if self.grades is None else [*lines, self.grades]


async def write_delivery(
    store: Store,
    order: Order,
    decoder: Decoder,
    gateway_hotkey: str,
    graders: GraderPool,
    folder: Path,
) -> Delivery:
    """Write the files of an order whose generation is over, all but the manifest.

    The bytes depend on the order's rows and objects alone; grades become objects.

    Raises:
        ObjectMissing: an object that the rows name is gone.
    """
    heading, audit = heading_of(order), AuditTally()
    grader, grading = grader_of(order), None
    with ExitStack() as stack:
        output, errors, receipts, made_report = (
            stack.enter_context(Written(folder / name)) for name in (*FILES, REPORT)
        )
        grades = None if grader is None else stack.enter_context(Written(folder / GRADES))
        delivery = Delivery(output, errors, receipts, made_report, grades)
        async for refused in refused_entries(store, order):
            delivery.errors.write(refused_line(heading, refused))
        runs = delivered_lines(store, order, gateway_hotkey)
        if grader is not None:
            grading = Grading(heading, grader, graders, store.objects, decoder)
            runs = grading.graded(runs)
        async for lines in runs:
            await asyncio.to_thread(_write, heading, lines, decoder, delivery, audit)
        evaluation = None if grading is None else grading.tally.evaluation()
        delivery.report.write(order_report(order, audit, evaluation))
    await keep_evaluation(store.objects, order, evaluation)
    return delivery


def refused_entries(store: Store, order: Order) -> AsyncGenerator[dict[str, Any], None]:
    """Yield the refused lines of an order, as the intake wrote them."""
    return objects_of(store.objects, order.id, REFUSED)


async def delivered_lines(
    store: Store, order: Order, gateway_hotkey: str
) -> AsyncIterator[list[Line[Delivered]]]:
    """Yield all usable lines of an order in runs, in order, with their verified samples.

    Memory holds one root unit.

    Raises:
        ObjectMissing: an object that the rows name is gone.
    """
    async with aclosing(objects_of(store.objects, order.id, LINES)) as entries:
        async for first, end, samples in _runs(store, order, gateway_hotkey):
            yield await _lines(store, order, first, end, entries, samples)


def heading_of(order: Order) -> Heading:
    """Return what all lines of an order's delivery share."""
    return Heading(
        order_id=order.id,
        endpoint=order.endpoint,
        created_at=order.created_at_ms // 1000,
        model=order.model,
        n=order.n,
        end_ids=frozenset(json.loads(order.end_ids_json)),
    )


async def _runs(
    store: Store, order: Order, gateway_hotkey: str
) -> AsyncIterator[tuple[int, int, dict[int, Delivered]]]:
    """Yield all lines of an order as runs ``[first, end)`` with their verified samples."""
    async with store.read() as session:
        roots = await root_units(session, order.id)
    for root in roots:
        yield root.first_line, root.end_line, await _samples(store, order, root, gateway_hotkey)
    for first in range(order.cursor_line, order.lines_usable, RUN):
        yield first, min(first + RUN, order.lines_usable), {}


async def _samples(
    store: Store, order: Order, root: Unit, gateway_hotkey: str
) -> dict[int, Delivered]:
    if not any(root.verified_bits or b""):
        return {}
    return await delivered_samples(store, order, root, gateway_hotkey)


async def _lines(
    store: Store,
    order: Order,
    first: int,
    end: int,
    entries: AsyncIterator[dict[str, Any]],
    samples: Mapping[int, Delivered],
) -> list[Line[Delivered]]:
    """Put a run of lines together; ``entries`` stands at line ``first``."""
    offsets = await prompt_offsets(store.objects, order.id, first, end)
    lines = []
    for index in range(first, end):
        entry = await anext(entries)
        ordinals = range(index * order.n, (index + 1) * order.n)
        held = {at: samples[ordinal] for at, ordinal in enumerate(ordinals) if ordinal in samples}
        length = int(offsets[index - first + 1] - offsets[index - first])
        reference = entry.get("reference")
        lines.append(Line(index, entry["custom_id"], length, held, reference))
    return lines


def _write(
    heading: Heading,
    lines: list[Line[Delivered]],
    decoder: Decoder,
    delivery: Delivery,
    audit: AuditTally,
) -> None:
    for line in lines:
        if line.samples:
            delivery.output.write(output_line(heading, line, decoder))
            delivery.receipts.write(receipt_lines(line))
            audit.add(line)
        if len(line.samples) < heading.n:
            delivery.errors.write(missing_line(heading, line))
        if delivery.grades is not None:
            delivery.grades.write(grades_of(heading, line).encoded())


def grades_of(heading: Heading, line: Line[Delivered]) -> LineGrades:
    """Return the grades of a line that was graded."""
    return LineGrades(line.index, line.custom_id, heading.n, line.grades)


def receipt_lines(line: Line[Delivered]) -> bytes:
    """Return the receipts of a line's samples, one JSON object a line."""
    return b"".join(
        sample.receipt(line.custom_id, line.index, choice).encoded()
        for choice, sample in sorted(line.samples.items())
    )


async def objects_of(
    objects: Objects, order_id: str, name: str
) -> AsyncGenerator[dict[str, Any], None]:
    """Yield the JSON objects of one of an order's line files.

    Raises:
        ObjectMissing: it is gone.
    """
    rest = b""
    async for piece in objects.stream(object_key(order_id, name)):
        *whole, rest = (rest + piece).split(b"\n")
        for line in whole:
            yield json.loads(line)
    if rest:
        yield json.loads(rest)
