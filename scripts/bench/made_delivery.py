"""Deliveries made without a network, for measuring and testing their check.

Gateway, miner and validator are three keys that sign real documents; what the miner generates comes
from the caller, and the validator passes all of it without looking.
"""

import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tokenizers import Tokenizer

from gateway.graders.tally import LineGrades, Tally
from gateway.intake.file import run_intake
from gateway.intake.job import IntakeJob
from gateway.intake.outcome import Intake
from gateway.orders.delivery import Written
from gateway.orders.delivery_lines import (
    Heading,
    Line,
    answer_of,
    missing_line,
    output_line,
    refused_line,
)
from gateway.orders.report import AuditTally, report
from protocol.manifest import (
    ERRORS,
    FILES,
    GRADES,
    MANIFEST,
    OUTPUT,
    RECEIPTS,
    REPORT,
    Counts,
    FileRecord,
    ManifestStatement,
    sampling_terms,
    signed_manifest,
)
from protocol.messages import SampleReference, Work
from protocol.receipts import SampleReceipt
from protocol.repository import ModelFacts, read_facts
from scripts.bench.made_receipts import CREATED_AT, Signers, receipts_of
from scripts.verify.prompts import ExpectedLine, digest_of, expected_lines, refused_entries

ORDER = "01a22870-0000-7000-8000-000000000000"
DRAWN_SEED = 4_242
Generate = Callable[[Work], list[list[int]]]


@dataclass(frozen=True)
class MadeGrader:
    """A grader by its name, and what it is made to find: the grade of a reference and a text."""

    name: str
    grade: Callable[[str, str], bool | None]


@dataclass(frozen=True)
class Model:
    """A model by its name, commit and folder."""

    name: str
    revision: str
    folder: Path


def make_delivery(
    folder: Path,
    input_path: Path,
    model: Model,
    generate: Generate,
    signers: Signers,
    *,
    unit_lines: int = 64,
    missing: frozenset[tuple[int, int]] = frozenset(),
    grader: MadeGrader | None = None,
) -> None:
    """Write the delivery of a file into ``folder``.

    Args:
        folder: an empty folder.
        input_path: the file that is ordered; its first line is usable.
        model: whose tokenizer renders it.
        generate: gives the ids of every sample of a unit.
        signers: sign as gateway, miner and validator.
        unit_lines: lines of a unit.
        missing: samples that are not delivered, as index of the line and choice.
        grader: makes it an evaluation's, whose lines have references.

    Raises:
        ValueError: the file cannot be ordered.
    """
    facts = read_facts(model.folder, model.name, model.revision)
    with tempfile.TemporaryDirectory() as work_folder:
        intake = _intake(input_path, facts, model.folder, Path(work_folder), grader is not None)
        writer = _Writer(folder, intake, facts, model.folder, missing, grader)
        with writer:
            for entry in refused_entries(intake):
                writer.refuse(entry)
            for number, lines in enumerate(_chunks(list(expected_lines(intake)), unit_lines)):
                work = _work(number, lines, intake, facts)
                made = receipts_of(work, generate(work), lines, intake.n, signers)
                for line in lines:
                    writer.deliver(line, made[line.index])
            writer.report(intake)
    statement = writer.statement(intake, digest_of(input_path))
    (folder / MANIFEST).write_bytes(signed_manifest(signers.gateway, statement).encoded())


def _intake(input_path: Path, facts: ModelFacts, files: Path, folder: Path, graded: bool) -> Intake:
    with input_path.open("rb") as file:
        endpoint = json.loads(file.readline())["url"]
    job = IntakeJob(
        input_path=input_path,
        folder=folder,
        endpoint=endpoint,
        graded=graded,
        model=facts.model,
        vocabulary_size=facts.vocabulary_size,
        context_length=facts.context_length,
        tokenizer_folder=files,
        template_time=CREATED_AT,
    )
    intake = run_intake(job)
    if not isinstance(intake, Intake):
        raise ValueError(intake.message)
    return intake


def _seed(intake: Intake) -> int:
    return DRAWN_SEED if intake.seed is None else intake.seed


def _work(number: int, lines: Sequence[ExpectedLine], intake: Intake, facts: ModelFacts) -> Work:
    return Work(
        unit_id=f"01a22870-0000-7000-8000-{number + 1:012x}",
        model=facts.model,
        revision=facts.revision,
        seed=_seed(intake),
        sampling=intake.sampling,
        vocabulary_size=facts.vocabulary_size,
        end_ids=list(facts.end_ids),
        prompts=[line.prompt_ids for line in lines],
        samples=[
            SampleReference(prompt=at, sample_index=line.first_sample_index + choice)
            for at, line in enumerate(lines)
            for choice in range(intake.n)
        ],
    )


class _Writer:
    """Writes all files but the manifest and counts what it writes; a context manager."""

    def __init__(
        self,
        folder: Path,
        intake: Intake,
        facts: ModelFacts,
        files: Path,
        missing: frozenset[tuple[int, int]],
        grader: MadeGrader | None,
    ) -> None:
        self._grader = grader
        self._evaluation = None if grader is None else Tally(grader.name)
        self._audit = AuditTally()
        self._facts = facts
        self._missing = missing
        self._heading = Heading(
            order_id=ORDER,
            endpoint=intake.endpoint,
            created_at=CREATED_AT,
            model=facts.model,
            n=intake.n,
            end_ids=frozenset(facts.end_ids),
        )
        self._decoder = Tokenizer.from_file(str(files / "tokenizer.json"))
        names = (*FILES, REPORT, *(() if grader is None else (GRADES,)))
        self._files = {name: Written(folder / name) for name in names}
        self._open = ExitStack()
        self._tally = Counter[str]()

    def __enter__(self) -> Self:
        for written in self._files.values():
            self._open.enter_context(written)
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def refuse(self, entry: Mapping[str, Any]) -> None:
        self._files[ERRORS].write(refused_line(self._heading, entry))

    def deliver(self, line: ExpectedLine, receipts: Sequence[SampleReceipt]) -> None:
        held = {
            receipt.choice: receipt
            for receipt in receipts
            if (line.index, receipt.choice) not in self._missing
        }
        delivered = Line(line.index, line.custom_id, len(line.prompt_ids), held)
        self._audit.add(delivered)
        self._grade(line, held)
        for receipt in held.values():
            self._files[RECEIPTS].write(receipt.encoded())
            self._tally["tokens"] += len(receipt.token_ids)
        if held:
            self._files[OUTPUT].write(output_line(self._heading, delivered, self._decoder))
        if len(held) < self._heading.n:
            self._files[ERRORS].write(missing_line(self._heading, delivered))
        self._tally["samples"] += len(held)
        self._tally["complete"] += len(held) == self._heading.n

    def _grade(self, line: ExpectedLine, held: Mapping[int, SampleReceipt]) -> None:
        if self._grader is None or self._evaluation is None:
            return
        texts = {
            choice: answer_of(self._heading, receipt.token_ids, self._decoder).text
            for choice, receipt in held.items()
        }
        reference = line.reference or ""
        grades = {choice: self._grader.grade(reference, text) for choice, text in texts.items()}
        graded = LineGrades(line.index, line.custom_id, self._heading.n, grades)
        self._files[GRADES].write(graded.encoded())
        self._evaluation.add(graded)

    def report(self, intake: Intake) -> None:
        """Write the report over all that was written."""
        made = report(
            order_id=ORDER,
            status="completed",
            model=self._facts.model,
            revision=self._facts.revision,
            counts=self._counts(intake),
            price=None,
            audit=self._audit.figures(0),
            evaluation=None if self._evaluation is None else self._evaluation.evaluation(),
        )
        self._files[REPORT].write(made)

    def _counts(self, intake: Intake) -> Counts:
        total = intake.usable_lines * intake.n
        return Counts(
            lines_total=intake.total_lines,
            lines_refused=intake.refused_lines,
            lines_completed=self._tally["complete"],
            samples_total=total,
            samples_delivered=self._tally["samples"],
            samples_missing=total - self._tally["samples"],
            prompt_tokens=intake.prompt_tokens,
            completion_tokens=self._tally["tokens"],
        )

    def statement(self, intake: Intake, ordered: FileRecord) -> ManifestStatement:
        """Return the manifest's statement over all that was written."""
        return ManifestStatement.model_validate(
            {
                "order_id": ORDER,
                "status": "completed",
                "created_at": CREATED_AT,
                "template_time": CREATED_AT,
                "endpoint": intake.endpoint,
                "grader": None if self._grader is None else self._grader.name,
                "model": self._facts.model,
                "revision": self._facts.revision,
                "vocabulary_size": self._facts.vocabulary_size,
                "end_ids": list(self._facts.end_ids),
                "sampling": sampling_terms(intake.sampling),
                "seed": _seed(intake),
                "seed_drawn": intake.seed is None,
                "n": intake.n,
                "input": ordered,
                "counts": self._counts(intake),
                "files": {
                    name: FileRecord(bytes=written.bytes, sha256=written.sha256)
                    for name, written in self._files.items()
                },
            }
        )


def _chunks(lines: list[ExpectedLine], size: int) -> Iterator[list[ExpectedLine]]:
    for start in range(0, len(lines), size):
        yield lines[start : start + size]
