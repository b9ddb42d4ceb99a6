"""Deliveries made without a network, for measuring and testing their check.

Gateway, miner and validator are three keys that sign real documents; what the miner generates comes
from the caller, and the validator passes all of it without looking.
"""

import json
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from bittensor_core import Keypair
from tokenizers import Tokenizer

from gateway.intake.file import run_intake
from gateway.intake.job import IntakeJob
from gateway.intake.outcome import Intake
from gateway.orders.delivery import Written
from gateway.orders.delivery_lines import (
    Heading,
    Line,
    Sample,
    missing_line,
    output_line,
    refused_line,
)
from protocol import merkle
from protocol.documents import (
    digest,
    lease_statement,
    result_root,
    result_statement,
    sample_leaf,
    verdict_leaf,
    verdict_root,
    verdict_statement,
    work_keys,
)
from protocol.keys import sign_statement
from protocol.manifest import (
    ERRORS,
    FILES,
    MANIFEST,
    OUTPUT,
    RECEIPTS,
    Counts,
    FileRecord,
    ManifestStatement,
    sampling_terms,
    signed_manifest,
)
from protocol.messages import SampleReference, SampleVerdict, Stack, Work
from protocol.receipts import LeasePart, ResultPart, SampleReceipt, VerdictPart
from protocol.repository import ModelFacts, read_facts
from scoring.profile import bin_of
from scoring.published import chosen
from scoring.sample_rule import RULE
from scripts.verify.prompts import ExpectedLine, digest_of, expected_lines, refused_entries

ORDER = "01a22870-0000-7000-8000-000000000000"
CREATED_AT = 1_762_685_000
DRAWN_SEED = 4_242
STACK = Stack(
    engine="transformers", version="1", dtype="bfloat16", head_dtype="float32", device="cpu"
)

Generate = Callable[[Work], list[list[int]]]


@dataclass(frozen=True)
class Signers:
    """The keys of gateway, miner and validator; those of bittensor's development phrase."""

    gateway: Keypair = field(default_factory=lambda: Keypair.create_from_uri("//gateway"))
    miner: Keypair = field(default_factory=lambda: Keypair.create_from_uri("//miner"))
    validator: Keypair = field(default_factory=lambda: Keypair.create_from_uri("//validator"))


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

    Raises:
        ValueError: the file cannot be ordered.
    """
    facts = read_facts(model.folder, model.name, model.revision)
    with tempfile.TemporaryDirectory() as work_folder:
        intake = _intake(input_path, facts, model.folder, Path(work_folder))
        writer = _Writer(folder, intake, facts, model.folder, missing)
        with writer:
            for entry in refused_entries(intake):
                writer.refuse(entry)
            for number, lines in enumerate(_chunks(list(expected_lines(intake)), unit_lines)):
                work = _work(number, lines, intake, facts)
                made = receipts_of(work, generate(work), lines, intake.n, signers)
                for line in lines:
                    writer.deliver(line, made[line.index])
    statement = writer.statement(intake, digest_of(input_path))
    (folder / MANIFEST).write_bytes(signed_manifest(signers.gateway, statement).encoded())


def _intake(input_path: Path, facts: ModelFacts, files: Path, folder: Path) -> Intake:
    with input_path.open("rb") as file:
        endpoint = json.loads(file.readline())["url"]
    job = IntakeJob(
        input_path=input_path,
        folder=folder,
        endpoint=endpoint,
        graded=False,
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
    """Writes output, errors and receipts and counts what it writes; a context manager."""

    def __init__(
        self,
        folder: Path,
        intake: Intake,
        facts: ModelFacts,
        files: Path,
        missing: frozenset[tuple[int, int]],
    ) -> None:
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
        self._files = {name: Written(folder / name) for name in FILES}
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
        delivered: Line[Sample] = Line(line.index, line.custom_id, len(line.prompt_ids), held)
        for receipt in held.values():
            self._files[RECEIPTS].write(receipt.encoded())
            self._tally["tokens"] += len(receipt.token_ids)
        if held:
            self._files[OUTPUT].write(output_line(self._heading, delivered, self._decoder))
        if len(held) < self._heading.n:
            self._files[ERRORS].write(missing_line(self._heading, delivered))
        self._tally["samples"] += len(held)
        self._tally["complete"] += len(held) == self._heading.n

    def statement(self, intake: Intake, ordered: FileRecord) -> ManifestStatement:
        """Return the manifest's statement over all that was written."""
        total = intake.usable_lines * intake.n
        return ManifestStatement.model_validate(
            {
                "order_id": ORDER,
                "status": "completed",
                "created_at": CREATED_AT,
                "template_time": CREATED_AT,
                "endpoint": intake.endpoint,
                "grader": None,
                "model": self._facts.model,
                "revision": self._facts.revision,
                "vocabulary_size": self._facts.vocabulary_size,
                "end_ids": list(self._facts.end_ids),
                "sampling": sampling_terms(intake.sampling),
                "seed": _seed(intake),
                "seed_drawn": intake.seed is None,
                "n": intake.n,
                "input": ordered,
                "counts": Counts(
                    lines_total=intake.total_lines,
                    lines_refused=intake.refused_lines,
                    lines_completed=self._tally["complete"],
                    samples_total=total,
                    samples_delivered=self._tally["samples"],
                    samples_missing=total - self._tally["samples"],
                    prompt_tokens=intake.prompt_tokens,
                    completion_tokens=self._tally["tokens"],
                ),
                "files": {
                    name: FileRecord(bytes=written.bytes, sha256=written.sha256)
                    for name, written in self._files.items()
                },
            }
        )


def receipts_of(
    work: Work, samples: list[list[int]], lines: Sequence[ExpectedLine], n: int, signers: Signers
) -> dict[int, list[SampleReceipt]]:
    """Return the receipts of a unit by line; all its samples count as verified with one margin."""
    profile = chosen(work.model, STACK, STACK).digest
    draw_keys, hotkey = work_keys(work), signers.miner.ss58_address
    verdicts = [
        SampleVerdict(
            outcome="verified",
            tokens=len(ids),
            mismatches=1,
            largest_margin_micro=1_000,
            marks=[(0, 0, bin_of(0.001))],
        )
        for ids in samples
    ]
    lease = lease_statement(work.unit_id, 1, hotkey, CREATED_AT, work)
    lease_digest = digest(lease).hex()
    root, judged = result_root(draw_keys, samples), verdict_root(draw_keys, verdicts)
    result = result_statement(work.unit_id, 1, lease_digest, STACK, root)
    verdict = verdict_statement(work.unit_id, 1, lease_digest, RULE, profile, STACK, root, judged)
    signatures = (
        sign_statement(signers.gateway, lease),
        sign_statement(signers.miner, result),
        sign_statement(signers.validator, verdict),
    )
    key_paths = _paths(draw_keys)
    result_paths = _paths([sample_leaf(*pair) for pair in zip(draw_keys, samples, strict=True)])
    verdict_paths = _paths([verdict_leaf(*pair) for pair in zip(draw_keys, verdicts, strict=True)])
    found: dict[int, list[SampleReceipt]] = defaultdict(list)
    for place, key in enumerate(draw_keys):
        line, choice = lines[place // n], place % n
        found[line.index].append(
            SampleReceipt(
                custom_id=line.custom_id,
                prompt_index=line.index,
                choice=choice,
                prompt_ids=line.prompt_ids,
                sample_index=line.first_sample_index + choice,
                draw_key=key.hex(),
                token_ids=samples[place],
                unit_id=work.unit_id,
                attempt=1,
                miner=hotkey,
                result=ResultPart(
                    stack=STACK,
                    root=root,
                    signature=signatures[1],
                    leaf_index=place,
                    leaf_count=len(draw_keys),
                    path=result_paths[place],
                ),
                verdict=VerdictPart(
                    validator=signers.validator.ss58_address,
                    sample=verdicts[place],
                    rule=RULE,
                    profile=profile,
                    stack=STACK,
                    root=judged,
                    signature=signatures[2],
                    path=verdict_paths[place],
                ),
                lease=LeasePart(
                    statement=lease,
                    gateway=signers.gateway.ss58_address,
                    signature=signatures[0],
                    path=key_paths[place],
                ),
            )
        )
    return found


def _chunks(lines: list[ExpectedLine], size: int) -> Iterator[list[ExpectedLine]]:
    for start in range(0, len(lines), size):
        yield lines[start : start + size]


def _paths(leaves: list[bytes]) -> list[list[str]]:
    return [[node.hex() for node in path] for path in merkle.paths(leaves)]
