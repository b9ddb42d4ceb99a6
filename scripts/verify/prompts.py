"""The customer's own file, rendered again: what each line's prompt must have been."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import file_digest
from pathlib import Path
from typing import Any

import numpy as np

from gateway.errors import GatewayError
from gateway.intake.job import IntakeJob
from gateway.intake.outcome import LINES, OFFSETS, PROMPTS, REFUSED, Intake
from gateway.intake.pool import IntakePool
from protocol.manifest import (
    MANIFEST,
    FileRecord,
    NativeStatement,
    Statement,
    sampling_terms,
)
from protocol.repository import RepositoryError, download, read_facts
from scripts.verify.discrepancy import Discrepancy, Uncheckable, difference, shown_text

BUSY = 503


@dataclass(frozen=True, slots=True)
class ExpectedLine:
    """A usable line of the customer's file; ``index`` counts these from 0, ``line`` all from 1."""

    index: int
    line: int
    custom_id: str
    prompt_ids: list[int]
    first_sample_index: int
    reference: str | None = None


def model_folder(statement: Statement, own: Path | None) -> Path:
    """Return the folder of the pinned model's text files, whose terms are those of the order.

    Args:
        statement: names model and commit.
        own: the customer's own copy; None fetches the pinned commit, weights not included.

    Raises:
        Uncheckable: the files cannot be had.
        Discrepancy: the order's vocabulary or end ids are not the model's.
    """
    try:
        folder = own or download(statement.model, statement.revision, weights=False)
        facts = read_facts(folder, statement.model, statement.revision)
    except (RepositoryError, OSError) as error:
        raise Uncheckable(f"{statement.model} at {statement.revision}: {error}") from error
    terms = {"vocabulary_size": statement.vocabulary_size, "end_ids": statement.end_ids}
    own_terms = {"vocabulary_size": facts.vocabulary_size, "end_ids": list(facts.end_ids)}
    _compare(own_terms, terms, "the model's own files")
    return folder


def digest_of(path: Path) -> FileRecord:
    """Return size and SHA-256 of the customer's file.

    Raises:
        Uncheckable: it cannot be read.
    """
    try:
        with path.open("rb") as file:
            sha256 = file_digest(file, "sha256").hexdigest()
            return FileRecord(bytes=file.tell(), sha256=sha256)
    except OSError as error:
        raise Uncheckable(f"cannot read {path}: {error.strerror}") from error


def rendered(statement: Statement, path: Path, tokenizer_folder: Path, work: Path) -> Intake:
    """Read the customer's file by the rules of the order and check what its lines share.

    The reading runs in a process of its own, bounded in time and memory: templates are programs.

    Args:
        statement: of the order.
        path: the customer's file.
        tokenizer_folder: the files of the pinned model.
        work: an empty folder for the outcome's files.

    Raises:
        Discrepancy: no order like this could have been placed on the file.
        Uncheckable: the reading takes too long or too much.
    """
    facts = read_facts(tokenizer_folder, statement.model, statement.revision)
    max_new_tokens = None
    if isinstance(statement, NativeStatement):
        max_new_tokens = statement.max_new_tokens
    job = IntakeJob(
        input_path=path,
        folder=work,
        endpoint=statement.endpoint,
        graded=statement.grader is not None,
        model=statement.model,
        vocabulary_size=statement.vocabulary_size,
        context_length=facts.context_length,
        tokenizer_folder=tokenizer_folder,
        template_time=statement.template_time,
        max_new_tokens=max_new_tokens,
    )
    try:
        intake = asyncio.run(_intake(job))
    except GatewayError as error:
        if error.status == BUSY:
            raise Uncheckable(error.message) from error
        message = f"no order can be placed on your file: {shown_text(error.message)}"
        raise Discrepancy(MANIFEST, message, field="statement.input") from error
    check_terms(statement, intake)
    return intake


def check_terms(statement: Statement, intake: Intake) -> None:
    """Check the terms of the order against what the lines of the file set.

    Raises:
        Discrepancy: one differs.
    """
    seed = statement.seed if intake.seed is None else intake.seed
    ordered = {
        "sampling": statement.sampling,
        "n": statement.n,
        "seed_drawn": statement.seed_drawn,
        "seed": statement.seed,
    }
    own = {
        "sampling": sampling_terms(intake.sampling),
        "n": intake.n,
        "seed_drawn": intake.seed is None,
        "seed": seed,
    }
    _compare(own, ordered, "your file")
    counts = statement.counts.model_dump()
    own_counts = {
        "lines_total": intake.total_lines,
        "lines_refused": intake.refused_lines,
        "samples_total": intake.usable_lines * intake.n,
        "prompt_tokens": intake.prompt_tokens,
    }
    _compare(
        {"counts": own_counts}, {"counts": {name: counts[name] for name in own_counts}}, "your file"
    )


def expected_lines(intake: Intake) -> Iterator[ExpectedLine]:
    """Yield the usable lines of a file that was rendered, in order."""
    with (
        (intake.folder / LINES).open(encoding="ascii") as lines,
        (intake.folder / OFFSETS).open("rb") as offsets,
        (intake.folder / PROMPTS).open("rb") as prompts,
    ):
        start = int.from_bytes(offsets.read(8), "little")
        for index, text in enumerate(lines):
            row = json.loads(text)
            end = int.from_bytes(offsets.read(8), "little")
            ids = np.frombuffer(prompts.read(4 * (end - start)), dtype="<u4").tolist()
            start = end
            yield ExpectedLine(
                index,
                row["line"],
                row["custom_id"],
                ids,
                row["first_sample_index"],
                row.get("reference"),
            )


def refused_entries(intake: Intake) -> Iterator[dict[str, Any]]:
    """Yield the refused lines of a file that was rendered, in order."""
    with (intake.folder / REFUSED).open(encoding="ascii") as refused:
        for text in refused:
            yield json.loads(text)


async def _intake(job: IntakeJob) -> Intake:
    async with IntakePool(workers=1) as pool:
        return await pool.intake(job, "the verifier")


def _compare(own: dict[str, Any], stated: dict[str, Any], source: str) -> None:
    found = difference(own, stated)
    if found is not None:
        field, how = found
        raise Discrepancy(MANIFEST, f"{how} (by {source})", field=f"statement.{field}")
