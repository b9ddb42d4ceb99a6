"""What the public record says of each miner, added up over all epochs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from protocol.epochs import EpochRecord
from scoring.epochs import scores_at
from scoring.pay import Scores
from scripts.strangers.weights import RULE, EpochWeights


@dataclass
class Figures:
    """One miner's work and failures.

    Attributes:
        verified, void: its samples.
        tokens: of the verified ones.
        nano: the price of those, prompts included, in nano-USD.
        lapsed: its leases that ended without an answer.
        convicted: whether it stands convicted.
    """

    verified: int = 0
    void: int = 0
    tokens: int = 0
    nano: int = 0
    lapsed: int = 0
    convicted: bool = False


def figures_of(records: Sequence[EpochRecord]) -> dict[str, Figures]:
    """Return the figures of every miner that is on record, by hotkey."""
    found: dict[str, Figures] = {}
    for record in records:
        for verdict in record.statement.verdicts:
            one = found.setdefault(verdict.miner, Figures())
            one.verified += verdict.verified
            one.void += verdict.void
            one.tokens += verdict.tokens
            one.nano += verdict.tokens * verdict.token_nano
            one.nano += verdict.prompt_tokens * verdict.prompt_token_nano
        for lapse in record.statement.lapses:
            found.setdefault(lapse.miner, Figures()).lapsed += 1
    for conviction in records[-1].statement.convictions if records else []:
        found.setdefault(conviction.miner, Figures()).convicted = True
    return found


def last_scores(records: Sequence[EpochRecord], epochs: Sequence[EpochWeights]) -> Scores | None:
    """Return the scores that the last weights are of; None without any."""
    if not epochs:
        return None
    known = [record for record in records if record.statement.number <= epochs[-1].record]
    return scores_at(known, epochs[-1].block, RULE)


def paid(epochs: Sequence[EpochWeights], hotkey: str) -> float:
    """Return a miner's share of the emission of all epochs, from 0 to 1."""
    return sum(epoch.share(hotkey) for epoch in epochs) / max(1, len(epochs))


def of(figures: Mapping[str, Figures], hotkey: str) -> Figures:
    """Return a miner's figures; those of one that is not on record are all 0."""
    return figures.get(hotkey, Figures())
