"""The audit of a delivery's receipts without any network, for customers and other third parties."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from protocol.messages import SampleReference, Work
from protocol.receipts import SampleReceipt, fault
from protocol.sampling import Sampling
from scoring.published import chosen
from validator.forward import Forward
from validator.offline import audit

# Receipts that are audited together; bounds the memory for a delivery of any length.
BATCH = 256
# What all samples of one unit share, as the gateway's lease statement names it.
_SHARED = ("model", "revision", "seed", "sampling", "vocabulary_size", "end_ids")


@dataclass(frozen=True, slots=True)
class Finding:
    """A receipt that does not hold: its line in the file (from 1), its sample, and why."""

    line: int
    sample: str
    reason: str


@dataclass(slots=True)
class ReceiptsAudit:
    """What the audit of a receipts file found; it holds where ``findings`` is empty."""

    samples: int = 0
    tokens: int = 0
    mismatches: int = 0
    findings: list[Finding] = field(default_factory=list)


def audit_receipts(path: Path, forward: Forward) -> ReceiptsAudit:
    """Check every receipt in the file and audit its tokens anew.

    Args:
        path: a delivery's ``receipts.jsonl``.
        forward: the model at the commit that the receipts name; whoever loads it answers for that.

    Raises:
        OSError: the file cannot be read.
    """
    found = ReceiptsAudit()
    first_lines: dict[str, int] = {}
    for batch in _batches(path, found):
        sound = []
        for line, receipt in batch:
            # One sample handed over for two would save a miner and cost the customer.
            first = first_lines.setdefault(receipt.draw_key, line)
            if first != line:
                found.findings.append(
                    Finding(line, _name(receipt), f"the same sample as on line {first}")
                )
            elif (wrong := fault(receipt)) is None:
                sound.append((line, receipt))
            else:
                found.findings.append(Finding(line, _name(receipt), str(wrong)))
        for group in _groups(sound):
            _audit_group(group, forward, found)
    return found


def work_of(receipts: Sequence[SampleReceipt]) -> Work:
    """Return the work that receipts with equal lease terms are the answer to, in their order.

    Raises:
        ValueError: the terms are none that a unit can have.
    """
    terms = receipts[0].lease.statement
    prompts = {tuple(receipt.prompt_ids): None for receipt in receipts}
    places = {prompt: place for place, prompt in enumerate(prompts)}
    try:
        sampling = {name: json.loads(value) for name, value in terms["sampling"].items()}
        return Work(
            unit_id=receipts[0].unit_id,
            model=terms["model"],
            revision=terms["revision"],
            seed=terms["seed"],
            sampling=Sampling(**sampling),
            vocabulary_size=terms["vocabulary_size"],
            end_ids=terms["end_ids"],
            prompts=[list(prompt) for prompt in prompts],
            samples=[
                SampleReference(
                    prompt=places[tuple(receipt.prompt_ids)], sample_index=receipt.sample_index
                )
                for receipt in receipts
            ],
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"the lease lacks terms of the draw: {error}") from error


def _batches(path: Path, found: ReceiptsAudit) -> Iterator[list[tuple[int, SampleReceipt]]]:
    batch = []
    with path.open("rb") as file:
        for number, text in enumerate(file, start=1):
            found.samples += 1
            try:
                batch.append((number, SampleReceipt.model_validate_json(text)))
            except ValidationError as error:
                first = error.errors(include_input=False, include_url=False)[0]
                place = ".".join(map(str, first["loc"])) or "the line"
                found.findings.append(Finding(number, "", f"{place}: {first['msg']}"))
            if len(batch) == BATCH:
                yield batch
                batch = []
    if batch:
        yield batch


def _groups(
    batch: Sequence[tuple[int, SampleReceipt]],
) -> list[list[tuple[int, SampleReceipt]]]:
    """Return the receipts by equal terms; samples of one prompt then share its forward."""
    groups: dict[str, list[tuple[int, SampleReceipt]]] = {}
    for line, receipt in batch:
        terms = [receipt.lease.statement.get(name) for name in _SHARED]
        terms.append(receipt.result.stack.model_dump())
        groups.setdefault(json.dumps(terms, sort_keys=True), []).append((line, receipt))
    return list(groups.values())


def _audit_group(
    group: Sequence[tuple[int, SampleReceipt]], forward: Forward, found: ReceiptsAudit
) -> None:
    receipts = [receipt for _, receipt in group]
    try:
        work = work_of(receipts)
    except ValueError as error:
        found.findings += [Finding(line, _name(one), str(error)[:200]) for line, one in group]
        return
    profile = chosen(work.model, receipts[0].result.stack, forward.stack())
    verdicts = audit(work, [receipt.token_ids for receipt in receipts], forward, profile)
    for (line, receipt), verdict in zip(group, verdicts, strict=True):
        found.tokens += verdict.tokens
        found.mismatches += verdict.mismatches
        if verdict.outcome != "verified":
            reason = f"{verdict.outcome}: {verdict.reason}"
            found.findings.append(Finding(line, _name(receipt), reason))


def _name(receipt: SampleReceipt) -> str:
    return f"{receipt.custom_id} #{receipt.choice}"
