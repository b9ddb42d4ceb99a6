"""When the margins of a sample void it, and when those of many convict their miner.

Two different acts. Voiding costs one regeneration and blames nobody. Convicting ends a miner's
work, so it rests on the evidence over all of its audited tokens alone, and on a profile that is
large enough to say so.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from scoring.evidence import Trail, extend, log_factors
from scoring.profile import Profile

RULE = "evidence/1"
# A sample is void by mistake with probability at most 1e-4: half for each of the two rules.
EVIDENCE_TO_VOID = 2e4
SINGLE_ALPHA = 5e-5
EVIDENCE_TO_CONVICT = 1e9
# Under bounds that are assumed the evidence must be far above all doubt.
EVIDENCE_TO_CONVICT_ASSUMED = 1e12
# Of a margin in the last bin, assumed where too few tokens were measured to bound it: else one
# token of any size would pass in every sample, and end it or turn its meaning round.
LAST_TAIL = 1e-9

# Position in the sample, stratum and bin of each token whose margin is not 0, by position.
Marks = Sequence[tuple[int, int, int]]
# A bin past every bin.
_NONE = np.iinfo(np.int64).max


class Ground(StrEnum):
    """What the honest margins are known from that evidence against a miner rests on."""

    MEASURED = "measured"
    ASSUMED = "assumed"


@dataclass(frozen=True, slots=True)
class Violation:
    """Where a rule first fails: the token that completes the case, and which rule it is."""

    position: int
    reason: str


@dataclass(frozen=True, slots=True)
class Finding:
    """What the rules say of a sample.

    Attributes:
        violation: the first violation, None where the sample passes.
        log_evidence: the largest natural logarithm of E within the sample.
        abstained: whether a margin stood where the profile has no bound that is rare enough for
            the single-token rule, so that the evidence judged it, below the last bin.
    """

    violation: Violation | None
    log_evidence: float
    abstained: bool


def judge_sample(profile: Profile, tokens: int, marks: Marks) -> Finding:
    """Return what the rules say of a sample under its profile.

    What lies behind the first violation does not change it, so it may be left out of ``marks``.

    Args:
        profile: the honest null of the miner's and the validator's stacks.
        tokens: how many the sample has.
        marks: the tokens whose margin is not 0, up to the violation at least.
    """
    strata, bins = _laid_out(tokens, marks)
    trail, evidence = extend(Trail.empty(), log_factors(profile, strata, bins))
    limits = single_bins(profile, tokens)[strata]
    unbound = _lowest_rare(profile.tails, tokens)[strata] == _NONE
    odd = bins > 0
    found = [
        *_first(evidence >= math.log(EVIDENCE_TO_VOID), f"evidence above {EVIDENCE_TO_VOID:.0f}"),
        *_first(odd & (bins >= limits), "a margin too rare for a sample of this length"),
    ]
    return Finding(
        violation=min(found, key=lambda one: one.position, default=None),
        log_evidence=trail.peak,
        abstained=bool((odd & unbound).any()),
    )


def single_bins(profile: Profile, tokens: int) -> NDArray[np.int64]:
    """Return the lowest bin that alone voids a sample of so many tokens, by stratum [strata].

    Where no bound of a stratum is low enough the number is past every bin. The last bin's is at
    most ``LAST_TAIL``, whatever was measured.
    """
    tails = profile.tails.copy()
    tails[:, -1] = np.minimum(tails[:, -1], LAST_TAIL)
    return _lowest_rare(tails, tokens)


def _lowest_rare(tails: NDArray[np.float64], tokens: int) -> NDArray[np.int64]:
    """Return the lowest bin of each stratum whose bound is low enough for so many tokens."""
    rare = tails * max(1, tokens) <= SINGLE_ALPHA
    return np.where(rare.any(axis=1), rare.argmax(axis=1), _NONE)


def trail_after(trail: Trail, profile: Profile, tokens: int, marks: Marks) -> Trail:
    """Return a miner's evidence after one more sample of its; arguments as in ``judge_sample``."""
    return extend(trail, log_factors(profile, *_laid_out(tokens, marks)))[0]


def unstratified(marks: Marks) -> Marks:
    """Return marks as a profile of one stratum has them."""
    return [(position, 0, bin_) for position, _, bin_ in marks]


def convicts(trail: Trail, ground: Ground) -> bool:
    """Say whether the evidence over a miner's audited tokens, in order, convicts it.

    Args:
        ground: ``MEASURED`` where only samples under profiles that ``convicts`` are in the trail.
    """
    measured = ground == Ground.MEASURED
    bound = EVIDENCE_TO_CONVICT if measured else EVIDENCE_TO_CONVICT_ASSUMED
    return trail.peak >= math.log(bound)


def _first(broken: NDArray[np.bool_], reason: str) -> list[Violation]:
    return [Violation(int(broken.argmax()), reason)] if broken.any() else []


def _laid_out(tokens: int, marks: Marks) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return stratum and bin of every token; a token without a mark has 0 and 0."""
    strata, bins = np.zeros(tokens, np.int64), np.zeros(tokens, np.int64)
    if marks:
        positions, own_strata, own_bins = np.array(marks, dtype=np.int64).T
        strata[positions], bins[positions] = own_strata, own_bins
    return strata, bins
