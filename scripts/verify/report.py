"""What a check saw and what it shows, as a person reads it."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from protocol.manifest import Statement
from protocol.receipts import SampleReceipt
from scripts.verify.discrepancy import shown
from scripts.verify.prompts import ExpectedLine
from scripts.verify.regrade import NEEDED, Regraded
from scripts.verify.verdicts import known_profile

SHOWN_LINES = 20
_GRADES = ("correct", "incorrect", "missing", "ungraded")


@dataclass
class Report:
    """A delivery that holds: who made it, who judged it, what is missing.

    ``refused`` counts refused lines by code; ``short`` are the first ``SHOWN_LINES`` of the lines
    that lack samples, as custom_id and number delivered; ``same_input`` tells that the customer's
    file is byte for byte the one that was ordered. ``rejudged`` counts samples whose verdict was
    drawn from its marks again. ``money`` is that of the delivery's report, which follows from its
    price and the verified tokens; ``evaluation`` is what an evaluation's grades come to, and
    ``regraded`` how many of them were made again, None where the grader is not installed.
    """

    statement: Statement
    gateway: str
    same_input: bool = False
    refused: Counter[str] = field(default_factory=Counter)
    miners: Counter[str] = field(default_factory=Counter)
    validators: Counter[str] = field(default_factory=Counter)
    rules: Counter[str] = field(default_factory=Counter)
    short: list[tuple[str, int]] = field(default_factory=list)
    lines_short: int = 0
    lines_completed: int = 0
    samples: int = 0
    completion_tokens: int = 0
    mismatches: int = 0
    rejudged: int = 0
    money: Mapping[str, str] | None = None
    evaluation: Mapping[str, Any] | None = None
    regraded: Regraded | None = None

    def add(self, line: ExpectedLine, samples: Mapping[int, SampleReceipt]) -> None:
        """Count one usable line and its delivered samples."""
        for receipt in samples.values():
            self.miners[receipt.miner] += 1
            self.validators[receipt.verdict.validator] += 1
            self.rules[receipt.verdict.rule] += 1
            self.completion_tokens += len(receipt.token_ids)
            self.mismatches += receipt.verdict.sample.mismatches
            self.rejudged += known_profile(receipt) is not None
        self.samples += len(samples)
        if len(samples) == self.statement.n:
            self.lines_completed += 1
            return
        self.lines_short += 1
        if len(self.short) < SHOWN_LINES:
            self.short.append((line.custom_id, len(samples)))


@dataclass(frozen=True)
class Assurance:
    """What the caller brought along besides the delivery.

    ``audited`` is the number of tokens that a fresh audit drew again; None where there was none.
    """

    gateway_given: bool
    model_given: bool
    validators_given: bool
    audited: int | None


def summary(report: Report, assurance: Assurance) -> Iterator[str]:
    """Yield the lines of the summary of a delivery that holds."""
    yield from _facts(report)
    yield ""
    yield "Proved:"
    for text in _proved(report, assurance):
        yield f"  + {text}"
    yield "Not proved:"
    for text in _not_proved(report, assurance):
        yield f"  - {text}"


def _facts(report: Report) -> Iterator[str]:
    statement, counts = report.statement, report.statement.counts
    sampling = ", ".join(f"{name} {value}" for name, value in statement.sampling.items())
    whose = "drawn by the gateway" if statement.seed_drawn else "set in your file"
    yield f"Order {statement.order_id}, {statement.status}"
    yield f"  model       {statement.model} at {statement.revision}"
    yield f"  sampling    {sampling}; n {statement.n}; seed {statement.seed} ({whose})"
    refused = f" ({_tally(report.refused)})" if report.refused else ""
    yield (
        f"  lines       {counts.lines_total:,}: {report.lines_completed:,} complete, "
        f"{report.lines_short:,} short of samples, {counts.lines_refused:,} refused{refused}"
    )
    yield (
        f"  samples     {report.samples:,} delivered, {counts.samples_missing:,} missing, "
        f"of {counts.samples_total:,}"
    )
    yield (
        f"  tokens      {counts.prompt_tokens:,} of prompts, {report.completion_tokens:,} of "
        f"completions, {report.mismatches:,} of them not the validator's own draw"
    )
    if report.money is not None:
        reserved, charged, refunded = (
            report.money[f"{name}_usd"] for name in ("reserved", "charged", "refunded")
        )
        yield f"  money       {charged} USD of {reserved} USD reserved; {refunded} USD given back"
    if report.evaluation is not None:
        yield f"  grades      {_grades(report.evaluation)}"
    yield f"  gateway     {report.gateway}"
    yield from _people("miners", report.miners)
    yield from _people("validators", report.validators)
    if report.rules:
        yield f"  judged by   {_tally(report.rules)}"
    for custom_id, delivered in report.short:
        yield f"  missing     {shown(custom_id)}: {delivered} of {statement.n} samples"
    if report.lines_short > len(report.short):
        yield f"  missing     and {report.lines_short - len(report.short):,} further lines"


def _grades(evaluation: Mapping[str, Any]) -> str:
    samples = evaluation["samples"]
    counted = ", ".join(f"{samples[kind]:,} {kind}" for kind in _GRADES)
    mean = evaluation["pass_at_1"]
    return f"pass@1 {'unknown' if mean is None else mean} by {evaluation['grader']}; {counted}"


def _people(role: str, people: Counter[str]) -> Iterator[str]:
    for place, (hotkey, samples) in enumerate(people.most_common(SHOWN_LINES)):
        yield f"  {'' if place else role:<11} {hotkey}: {samples:,} samples"
    if len(people) > SHOWN_LINES:
        yield f"  {'':<11} and {len(people) - SHOWN_LINES:,} more"


def _tally(counts: Counter[str]) -> str:
    return ", ".join(f"{shown(name)[1:-1]}: {times:,}" for name, times in counts.most_common())


def _proved(report: Report, assurance: Assurance) -> Iterator[str]:
    yield (
        "Every prompt is your own line, rendered here with the model's pinned tokenizer and "
        "template; every refused line is refused by the published rules."
    )
    yield (
        "Seed, sampling, model commit and prompts are those of the lease that the gateway signed "
        "and that miner and validator signed for."
    )
    yield (
        "Every sample is the one that its miner signed and a validator signed as verified; "
        "none stands for two."
    )
    yield (
        "Text, finish reasons and usage follow from the signed token ids; output, errors and "
        "counts are complete and unchanged."
    )
    if report.rejudged:
        yield (
            f"The verdicts on {report.rejudged:,} samples follow from the margins that their "
            "validators recorded, by the published rule and profile."
        )
    if assurance.audited is not None:
        yield (
            f"All {assurance.audited:,} tokens were drawn again from your own copy of the model "
            "and pass the audit."
        )
    if report.money is not None:
        yield (
            "The money follows from the price that was quoted and the tokens that were verified."
        )
    if report.regraded is not None and report.regraded.same:
        yield (
            f"{report.regraded.same:,} grades follow from your references by the published rule; "
            "pass@1 adds up."
        )
    if report.same_input:
        yield "Your file is byte for byte the one that was ordered."


def _not_proved(report: Report, assurance: Assurance) -> Iterator[str]:
    if assurance.audited is None:
        yield (
            "That the tokens follow from the model: that is the validators' signed word. "
            "--audit draws them again."
        )
    if report.rejudged < report.samples:
        yield (
            f"How {report.samples - report.rejudged:,} verdicts were reached: by another rule or "
            "profile than this version has for these stacks."
        )
    if report.statement.seed_drawn:
        yield (
            "That the gateway drew the seed only once: your file sets none. "
            "A seed in the file removes this."
        )
    if not assurance.gateway_given:
        yield (
            "That the gateway is the one you ordered from: its hotkey was taken from the delivery. "
            "Give the expected one with --gateway-hotkey."
        )
    if not assurance.model_given:
        yield (
            "That the model is the one you ordered: it was taken from the delivery, and so was "
            "its commit. Give them with --model NAME@COMMIT."
        )
    if not assurance.validators_given:
        yield (
            "That the validators hold permits on the chain: their hotkeys were taken from the "
            "delivery. Give the expected ones with --validator-hotkeys."
        )
    if not report.same_input:
        yield (
            "That your file is the one that was ordered: its bytes differ (as they do where the "
            "requests were sent in the body), though it renders to the same prompts."
        )
    if report.evaluation is not None:
        yield from _not_graded(report)
    if report.lines_short:
        yield "Why samples are missing: void samples leave no receipt."


def _not_graded(report: Report) -> Iterator[str]:
    if report.regraded is None:
        yield (
            f"That the grades follow from your references: {NEEDED} is not installed. "
            "pip install 'math-verify[antlr4-13-2]' brings it."
        )
        return
    if report.regraded.unsure:
        yield (
            f"{report.regraded.unsure:,} grades: comparing takes this machine to the limits of "
            "the rule, or failed on it."
        )
    if report.regraded.ungraded:
        yield f"The {report.regraded.ungraded:,} samples that the gateway could not grade."
