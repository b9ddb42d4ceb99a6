"""The answers of a delivery, as JSONL or as Parquet, held to what each line's must be."""

import json
from collections.abc import Iterator, Sequence
from hashlib import file_digest
from pathlib import Path
from typing import Any, Protocol

from gateway.orders.delivery_lines import Decoder, Heading, Line, output_line
from protocol.manifest import FileRecord
from protocol.receipts import SampleReceipt
from scripts.verify.discrepancy import Discrepancy, Uncheckable, difference
from scripts.verify.files import DeliveryFile, open_plain

# A line that is longer than the expected one by more is not read to its end.
SLACK = 64 * 1024
# Far above what a gateway writes of one row group.
MAX_GROUP_BYTES = 2**30


class Answers(Protocol):
    """The answers of a delivery, read in the order of the lines."""

    def expect(self, heading: Heading, line: Line[SampleReceipt], decoder: Decoder) -> None:
        """Check that the next answers are those of ``line``.

        Raises:
            Discrepancy: they are not.
        """
        ...

    def finish(self) -> None:
        """Check that nothing follows, and that the files are those of the manifest.

        Raises:
            Discrepancy: it is not so.
        """
        ...


class JsonlAnswers:
    """Answers as OpenAI's batch output."""

    def __init__(self, file: DeliveryFile) -> None:
        self._file = file

    def expect(self, heading: Heading, line: Line[SampleReceipt], decoder: Decoder) -> None:
        """Check that the next line is the answer to ``line``."""
        expect_line(self._file, output_line(heading, line, decoder), line.custom_id)

    def finish(self) -> None:
        """Check that nothing follows, and that the files are those of the manifest."""
        self._file.finish()


class ParquetAnswers:
    """Answers as Parquet, a row a sample.

    A file is read once it is known to be the one that the gateway signed; memory holds one of its
    row groups.

    Args:
        folder: the delivery.
        records: name and record of each file, in order.

    Raises:
        Uncheckable: Parquet cannot be read on this machine.
    """

    def __init__(self, folder: Path, records: Sequence[tuple[str, FileRecord]]) -> None:
        self._name, self._row = records[0][0], 0
        self._rows = self._all_rows(folder, records)
        try:
            from gateway.orders.parquet import GROUP_ROWS, SCHEMA
            from gateway.orders.parquet_rows import rows_of
        except ModuleNotFoundError as error:
            raise Uncheckable(
                f"a Parquet delivery needs {error.name}, which is not installed; "
                "pip install pyarrow"
            ) from error
        self._schema, self._most_rows, self._rows_of = SCHEMA, GROUP_ROWS, rows_of

    def expect(self, heading: Heading, line: Line[SampleReceipt], decoder: Decoder) -> None:
        """Check that the next rows are those of ``line``."""
        for due in self._rows_of(heading, line, decoder):
            found = next(self._rows, None)
            if found is None:
                raise self._fault("the row is missing", line.custom_id)
            if (differs := difference(due, found)) is not None:
                raise self._fault(differs[1], line.custom_id, differs[0])

    def finish(self) -> None:
        """Check that no row follows."""
        if next(self._rows, None) is not None:
            raise self._fault("the file goes on past what was delivered")

    def _all_rows(
        self, folder: Path, records: Sequence[tuple[str, FileRecord]]
    ) -> Iterator[dict[str, Any]]:
        for name, record in records:
            self._name, self._row = name, 0
            check_record(folder, name, record)
            for row in self._file_rows(folder / name):
                self._row += 1
                yield row
        self._row += 1

    def _file_rows(self, path: Path) -> Iterator[dict[str, Any]]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            with pq.ParquetFile(path) as file:
                if not file.schema_arrow.equals(self._schema, check_metadata=True):
                    raise Discrepancy(self._name, "the schema is not the published one")
                for at in range(file.num_row_groups):
                    group = file.metadata.row_group(at)
                    if group.num_rows > self._most_rows or group.total_byte_size > MAX_GROUP_BYTES:
                        raise Discrepancy(self._name, f"row group {at} is larger than any is made")
                    yield from file.read_row_group(at).to_pylist()
        except pa.ArrowException as error:
            raise Discrepancy(self._name, "is no Parquet file that can be read") from error
        except OSError as error:
            raise Discrepancy(self._name, "is no Parquet file that can be read") from error

    def _fault(
        self, message: str, custom_id: str | None = None, field: str | None = None
    ) -> Discrepancy:
        return Discrepancy(
            self._name, message, line=self._row or None, custom_id=custom_id, field=field
        )


def check_record(folder: Path, name: str, record: FileRecord) -> None:
    """Check size and hash of a file of a delivery.

    Raises:
        Discrepancy: one is not that of its record.
        Uncheckable: it cannot be read.
    """
    with open_plain(folder, name) as file:
        try:
            digest = file_digest(file, "sha256").hexdigest()
            size = file.tell()
        except OSError as error:
            raise Uncheckable(f"cannot read {name}: {error.strerror}") from error
    if size != record.bytes:
        message = f"the file has {size} bytes, the manifest says {record.bytes}"
        raise Discrepancy(name, message, field="bytes")
    if digest != record.sha256:
        message = "the file's SHA-256 is not the one in the manifest"
        raise Discrepancy(name, message, field="sha256")


def expect_line(file: DeliveryFile, expected: bytes, custom_id: str) -> None:
    """Check that the next line of ``file`` is ``expected``; name the member where it is not.

    Raises:
        Discrepancy: it is another.
    """
    found = file.read_line(len(expected) + SLACK)
    if found == expected:
        return
    if not found:
        raise file.fault("the line is missing", custom_id=custom_id)
    try:
        value = json.loads(found)
    except (ValueError, RecursionError):
        raise file.fault("is no JSON of the expected length", custom_id=custom_id) from None
    field, how = difference(json.loads(expected), value) or (None, "is not in its canonical form")
    raise file.fault(how, custom_id=custom_id, field=field or None)
