"""Which files a delivery must have, and all of them opened."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from protocol.manifest import (
    FILES,
    GRADES,
    MANIFEST,
    REPORT,
    BatchFileName,
    FileRecord,
    ManifestStatement,
    NativeStatement,
    Statement,
)
from scripts.verify.answers import Answers, JsonlAnswers, ParquetAnswers
from scripts.verify.discrepancy import Discrepancy
from scripts.verify.files import DeliveryFile

Records = list[tuple[str, FileRecord]]
_NUMBERED = re.compile(r"([a-z]+)-([0-9]{5})\.[a-z]+")
_LIKE_A_DELIVERYS = re.compile(r"(?:part|output|errors|receipts|grades)\b.*\.(?:jsonl|parquet)")


class DeliveryFiles:
    """The files of a delivery but manifest and report; a context manager.

    ``grades`` is None where the order has no grader.

    Raises:
        Discrepancy: a file is missing, or the manifest names none that it must.
        Uncheckable: one cannot be read.
    """

    def __init__(self, folder: Path, statement: Statement) -> None:
        self._open = ExitStack()
        self.grades: DeliveryFile | None = None
        if isinstance(statement, NativeStatement):
            kinds = shards_of(statement)
            self.errors = self._file(folder, kinds["errors"], "errors")
            self.receipts = self._file(folder, kinds["receipts"], "receipts")
            if statement.grader is not None:
                self.grades = self._file(folder, kinds["grades"], "grades")
            self.answers: Answers = (
                ParquetAnswers(folder, kinds["part"])
                if statement.output_format == "parquet"
                else JsonlAnswers(self._file(folder, kinds["output"], "output"))
            )
            _check_strangers(folder, statement)
            return
        graded: list[BatchFileName] = [] if statement.grader is None else [GRADES]
        _check_names(statement, [*FILES, REPORT, *graded])
        names: list[BatchFileName] = [*FILES, *graded]
        output, self.errors, self.receipts, *grades = (
            self._file(folder, [(name, statement.files[name])], name) for name in names
        )
        self.answers = JsonlAnswers(output)
        self.grades = grades[0] if grades else None
        _check_strangers(folder, statement)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def finish(self) -> None:
        """Check that nothing follows in any of them, and sizes and hashes.

        Raises:
            Discrepancy: it is not so.
        """
        self.receipts.finish()
        self.answers.finish()
        self.errors.finish()
        if self.grades is not None:
            self.grades.finish()

    def _file(self, folder: Path, records: Records, name: str) -> DeliveryFile:
        return self._open.enter_context(DeliveryFile(folder, records, name))


def _check_names(statement: ManifestStatement, due: Sequence[BatchFileName]) -> None:
    """Check that the delivery of a batch has the files ``due`` and no other."""
    for name in due:
        if name not in statement.files:
            raise _fault("is missing", name)
    for name in statement.files:
        if name not in due:
            raise _fault("does not belong into this delivery", name)


def _check_strangers(folder: Path, statement: Statement) -> None:
    """Check that nothing else in the folder looks like a file of its delivery.

    Who reads ``part-*.parquet`` reads all of them.
    """
    for path in sorted(folder.iterdir()):
        if path.name not in statement.files and _LIKE_A_DELIVERYS.fullmatch(path.name):
            raise Discrepancy(path.name, "is not of this delivery: its manifest does not name it")


def shards_of(statement: NativeStatement) -> Mapping[str, Records]:
    """Return the numbered files of a native delivery by the word before their number, in order.

    Raises:
        Discrepancy: one is left out, or does not belong into this delivery.
    """
    found: dict[str, Records] = defaultdict(list)
    for name, record in sorted(statement.files.items()):
        match = _NUMBERED.fullmatch(name)
        if match is None:
            continue
        if int(match[2]) != len(found[match[1]]):
            raise _fault("a file before it is missing", name)
        found[match[1]].append((name, record))
    parquet = statement.output_format == "parquet"
    allowed = {"part" if parquet else "output", "errors", "receipts"}
    allowed |= set() if statement.grader is None else {"grades"}
    for kind in sorted(set(found) - allowed):
        raise _fault("does not belong into this delivery", found[kind][0][0])
    answers = "part-00000.parquet" if parquet else "output-00000.jsonl"
    for name in (answers, REPORT):
        if name not in statement.files:
            raise _fault("is missing", name)
    return found


def _fault(message: str, name: str) -> Discrepancy:
    return Discrepancy(MANIFEST, message, field=f"statement.files.{name}")
