"""The check of a whole delivery: its files are read side by side, a line of the input at a time."""

import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from gateway.intake.outcome import Intake
from gateway.orders.delivery_lines import Decoder, Heading, Line, missing_line, refused_line
from gateway.orders.report import AuditTally
from protocol.manifest import MANIFEST, Counts, Statement
from protocol.receipts import SampleReceipt
from scripts.verify.answers import expect_line
from scripts.verify.delivery_files import DeliveryFiles
from scripts.verify.discrepancy import Discrepancy, difference
from scripts.verify.grades import GradesReader
from scripts.verify.manifest import check_model, read_manifest
from scripts.verify.prompts import (
    ExpectedLine,
    digest_of,
    expected_lines,
    model_folder,
    refused_entries,
    rendered,
)
from scripts.verify.receipts import Expected, ReceiptReader
from scripts.verify.regrade import Regraded, Regrader, can_grade
from scripts.verify.report import Report
from scripts.verify.stated_report import check_report

Progress = Callable[[int, int], None]
"""Called with the input lines that are checked and those in all."""


def verify(
    delivery: Path,
    input_path: Path,
    *,
    gateway: str | None = None,
    model: str | None = None,
    validators: frozenset[str] | None = None,
    own_model: Path | None = None,
    progress: Progress | None = None,
) -> Report:
    """Check a delivery against the customer's own file, all but the model's arithmetic.

    Args:
        delivery: the folder with ``manifest.json`` and the files that it names.
        input_path: the file that was ordered.
        gateway: the hotkey that must have signed; None takes the one that the delivery names.
        model: NAME or NAME@COMMIT, what was ordered; None takes what the delivery names.
        validators: the hotkeys that may have judged; None allows any.
        own_model: a folder with the pinned model's files; None fetches those of the commit.
        progress: told how far the check is.

    Raises:
        Discrepancy: the first thing that does not hold.
        Uncheckable: the check cannot be made.
    """
    manifest = read_manifest(delivery, gateway)
    statement = manifest.statement
    check_model(statement, model)
    ordered = digest_of(input_path)
    folder = model_folder(statement, own_model)
    with tempfile.TemporaryDirectory(prefix="reliquary-verify-") as work:
        intake = rendered(statement, input_path, folder, Path(work))
        expected = Expected(statement, manifest.gateway, validators)
        report = check_files(delivery, expected, intake, folder, progress)
    report.same_input = ordered == statement.input
    return report


def check_files(
    delivery: Path,
    expected: Expected,
    intake: Intake,
    tokenizer_folder: Path,
    progress: Progress | None = None,
) -> Report:
    """Check all files of a delivery against its manifest and the rendered file.

    Args:
        delivery: the folder.
        expected: the manifest's statement, and who may have signed.
        intake: the customer's file, rendered by the terms of the statement.
        tokenizer_folder: the files of the pinned model.
        progress: told how far the check is.

    Raises:
        Discrepancy: the first thing that does not hold.
        Uncheckable: a file cannot be read.
    """
    statement = expected.statement
    decoder = Tokenizer.from_file(str(tokenizer_folder / "tokenizer.json"))
    report = Report(statement, expected.gateway)
    with DeliveryFiles(delivery, statement) as files, ExitStack() as stack:
        check = _Check(statement, decoder, files, stack)
        for entry in refused_entries(intake):
            check.refused(entry)
            report.refused[entry["error"]["code"]] += 1
        reader = ReceiptReader(files.receipts, expected)
        for line in expected_lines(intake):
            samples = reader.of_line(line)
            check.usable(line, samples)
            report.add(line, samples)
            if progress is not None:
                progress(line.index + 1, intake.usable_lines)
        report.regraded = check.regraded()
        files.finish()
    _check_counts(report)
    report.evaluation = check.evaluation()
    report.money = check_report(delivery, statement, check.audit, report.evaluation)
    return report


class _Check:
    """Holds the lines of a delivery to what they must be, byte for byte.

    Args:
        stack: closes what the check needs.
    """

    def __init__(
        self, statement: Statement, decoder: Decoder, files: DeliveryFiles, stack: ExitStack
    ) -> None:
        self._heading = heading_of(statement)
        self._decoder = decoder
        self._files = files
        self._grades: GradesReader | None = None
        self._regrader: Regrader | None = None
        if files.grades is not None and statement.grader is not None:
            self._grades = GradesReader(files.grades, statement.grader, statement.n)
            if can_grade(statement.grader):
                regrader = Regrader(statement.grader, self._heading, decoder)
                self._regrader = stack.enter_context(regrader)
        self.audit = AuditTally()

    def refused(self, entry: Mapping[str, Any]) -> None:
        """Check the error line of the next refused line."""
        expect_line(self._files.errors, refused_line(self._heading, entry), entry["custom_id"])

    def usable(self, line: ExpectedLine, samples: Mapping[int, SampleReceipt]) -> None:
        """Check what was delivered of a usable line, and the error line where it is short."""
        delivered = Line(
            line.index,
            line.custom_id,
            len(line.prompt_ids),
            samples,
            line.reference,
            {} if self._grades is None else self._grades.of_line(line, samples),
        )
        if samples:
            self._files.answers.expect(self._heading, delivered, self._decoder)
            self.audit.add(delivered)
        if self._regrader is not None and self._files.grades is not None:
            self._regrader.add(delivered, self._files.grades.name, self._files.grades.line)
        if len(samples) < self._heading.n:
            due = missing_line(self._heading, delivered)
            expect_line(self._files.errors, due, line.custom_id)

    def regraded(self) -> Regraded | None:
        """Grade what still waits; return what that came to, None where nothing can be graded.

        Raises:
            Discrepancy: a grade does not follow from its reference.
        """
        if self._regrader is None:
            return None
        self._regrader.flush()
        return self._regrader.found

    def evaluation(self) -> dict[str, Any] | None:
        """Return what the grades of all lines come to; None where there are none."""
        return None if self._grades is None else self._grades.tally.evaluation()


def heading_of(statement: Statement) -> Heading:
    """Return what all lines of a delivery share."""
    return Heading(
        order_id=statement.order_id,
        endpoint=statement.endpoint,
        created_at=statement.created_at,
        model=statement.model,
        n=statement.n,
        end_ids=frozenset(statement.end_ids),
    )


def _check_counts(report: Report) -> None:
    """Check the manifest's counts against what was seen."""
    stated = report.statement.counts
    seen = Counts(
        lines_total=stated.lines_total,
        lines_refused=stated.lines_refused,
        lines_completed=report.lines_completed,
        samples_total=stated.samples_total,
        samples_delivered=report.samples,
        samples_missing=stated.samples_total - report.samples,
        prompt_tokens=stated.prompt_tokens,
        completion_tokens=report.completion_tokens,
    )
    found = difference(seen.model_dump(), stated.model_dump())
    if found is not None:
        raise Discrepancy(MANIFEST, found[1], field=f"statement.counts.{found[0]}")
