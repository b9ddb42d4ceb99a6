"""Writing and storing a native delivery: bounded files, each stored and let go once it is whole.

The bytes depend on the order's rows and objects alone. Each file's object is named by its content:
an exporter that takes over from one that died finds what that one stored, and goes on from there.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bittensor_core import Keypair

from gateway.graders.pool import GraderPool
from gateway.graders.tally import LineGrades
from gateway.orders.content import object_key
from gateway.orders.delivery import delivered_lines, heading_of, receipt_lines, refused_entries
from gateway.orders.delivery_lines import Decoder, Line, missing_line, output_line, refused_line
from gateway.orders.evaluation import grader_of, keep_evaluation
from gateway.orders.evidence import Delivered
from gateway.orders.grading import Grading
from gateway.orders.manifest import native_statement
from gateway.orders.order_report import order_report
from gateway.orders.parquet_rows import rows_of
from gateway.orders.report import AuditTally
from gateway.orders.shards import Bounds, JsonlShards, Shard, whole_shard
from gateway.store.engine import Store
from gateway.store.objects import ObjectExists, Objects
from gateway.store.tables import DeliveredFile, File, FileKind, Order, OutputFormat
from protocol.manifest import MANIFEST, REPORT, signed_manifest

if TYPE_CHECKING:
    from gateway.orders.parquet import ParquetShards


@dataclass(frozen=True)
class Tools:
    """What deliveries are written with.

    Attributes:
        decoder: of the model's ids.
        keypair: the gateway's, which signs manifests.
        graders: grade evaluations.
        folder: an empty folder for files at work.
    """

    decoder: Decoder
    keypair: Keypair
    graders: GraderPool
    folder: Path
    bounds: Bounds


@dataclass(frozen=True)
class Joined:
    """The JSONL files of one kind, one after another; ``sha256`` in hex."""

    bytes: int
    sha256: str


@dataclass(frozen=True)
class NativeDelivery:
    """A delivery that is stored: its files, the manifest last.

    ``output`` is None of answers as Parquet, which cannot be joined.
    """

    files: list[DeliveredFile]
    output: Joined | None
    errors: Joined


async def deliver_natively(store: Store, order: Order, tools: Tools) -> NativeDelivery:
    """Write and store the delivery of an order.

    Raises:
        ObjectMissing: an object that the rows name is gone.
    """
    objects = store.objects
    writer = _Writer(order, tools)
    files: list[DeliveredFile] = []
    async for entry in refused_entries(store, order):
        writer.refuse(entry)
    runs = delivered_lines(store, order, tools.keypair.ss58_address)
    grader, grading = grader_of(order), None
    if grader is not None:
        grading = Grading(heading_of(order), grader, tools.graders, objects, tools.decoder)
        runs = grading.graded(runs)
    async for lines in runs:
        await asyncio.to_thread(writer.deliver, lines)
        files += await _stored(objects, order, writer.take())
    await asyncio.to_thread(writer.finish)
    files += await _stored(objects, order, writer.take())
    evaluation = None
    if grading is not None:
        evaluation = grading.tally.evaluation()
        await keep_evaluation(objects, order, evaluation)
    made = _small(tools.folder / REPORT, FileKind.REPORT, writer.report(evaluation))
    files += await _stored(objects, order, [made])
    async with store.read() as session:
        ordered = await session.get_one(File, order.input_file_id)
    manifest = signed_manifest(tools.keypair, native_statement(order, ordered, files))
    # The last, so that whoever sees a manifest sees all that it names.
    made = _small(tools.folder / MANIFEST, FileKind.MANIFEST, manifest.encoded())
    files += await _stored(objects, order, [made])
    return NativeDelivery(files, *writer.joined())


class _Writer:
    """Writes what lines come to; its methods run in one thread at a time."""

    def __init__(self, order: Order, tools: Tools) -> None:
        self._order = order
        self._decoder = tools.decoder
        self._heading = heading_of(order)
        self._graded = grader_of(order) is not None
        self._audit = AuditTally()
        folder, bounds = tools.folder, tools.bounds
        self._parquet: ParquetShards | None = None
        self._output: JsonlShards | None = None
        if order.output_format == OutputFormat.PARQUET:
            self._parquet = _parquet_shards(folder, bounds)
        else:
            self._output = JsonlShards(folder, "output", FileKind.OUTPUT, bounds, always=True)
        self._errors = JsonlShards(folder, "errors", FileKind.ERRORS, bounds)
        self._receipts = JsonlShards(folder, "receipts", FileKind.RECEIPTS, bounds)
        self._grades = JsonlShards(folder, "grades", FileKind.GRADES, bounds)

    def refuse(self, entry: Mapping[str, Any]) -> None:
        """Write a refused line."""
        self._errors.write(refused_line(self._heading, entry))

    def deliver(self, lines: Sequence[Line[Delivered]]) -> None:
        """Write usable lines."""
        for line in lines:
            if line.samples:
                self._answer(line)
                self._receipts.write(receipt_lines(line))
                self._audit.add(line)
            if len(line.samples) < self._heading.n:
                self._errors.write(missing_line(self._heading, line))
            if self._graded:
                grades = LineGrades(line.index, line.custom_id, self._heading.n, line.grades)
                self._grades.write(grades.encoded())

    def take(self) -> list[Shard]:
        """Return the files that have become whole since the last call."""
        return [shard for shards in self._all() for shard in shards.take()]

    def finish(self) -> None:
        """Make all files whole."""
        for shards in self._all():
            shards.finish()

    def joined(self) -> tuple[Joined | None, Joined]:
        """Return answers and errors as whole files."""
        output = self._output
        return (
            None if output is None else Joined(output.bytes, output.sha256),
            Joined(self._errors.bytes, self._errors.sha256),
        )

    def report(self, evaluation: Mapping[str, Any] | None) -> bytes:
        """Return the report over all that was written."""
        return order_report(self._order, self._audit, evaluation)

    def _answer(self, line: Line[Delivered]) -> None:
        if self._parquet is not None:
            for row in rows_of(self._heading, line, self._decoder):
                self._parquet.write(row)
        if self._output is not None:
            self._output.write(output_line(self._heading, line, self._decoder))

    def _all(self) -> "list[ParquetShards | JsonlShards]":
        output = [shards for shards in (self._parquet, self._output) if shards is not None]
        return [*output, self._errors, self._receipts, self._grades]


def _small(path: Path, kind: FileKind, content: bytes) -> Shard:
    path.write_bytes(content)
    return whole_shard(path, kind)


async def _stored(objects: Objects, order: Order, shards: Sequence[Shard]) -> list[DeliveredFile]:
    """Store files under names of their content, and remove them from the local disk."""
    files = []
    for shard in shards:
        key = object_key(order.id, f"delivery/{shard.sha256}/{shard.name}")
        await _put(objects, key, shard.path)
        shard.path.unlink()
        files.append(
            DeliveredFile(
                order_id=order.id,
                name=shard.name,
                kind=shard.kind,
                bytes=shard.bytes,
                sha256=shard.sha256,
                object_key=key,
            )
        )
    return files


async def _put(objects: Objects, key: str, content: bytes | Path) -> None:
    # An exporter that died may have stored the very same.
    with suppress(ObjectExists):
        await objects.put(key, content)


def _parquet_shards(folder: Path, bounds: Bounds) -> "ParquetShards":
    # Arrow takes 30 MB, which a gateway that writes no Parquet never needs.
    from gateway.orders.parquet import ParquetShards

    return ParquetShards(folder, bounds)
