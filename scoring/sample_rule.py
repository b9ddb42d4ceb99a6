"""When the margins of a sample void it, and when those of many convict their miner.

Two different acts. Voiding costs one regeneration and blames nobody. Convicting ends a miner's
work, so it rests on the evidence over all of its audited tokens alone, and on a profile that is
large enough to say so.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scoring.evidence import Trail, extend, log_factors
from scoring.profile import Profile

RULE = "evidence/1"
# A sample is void by mistake with probability at most 1e-4: half for each of the two rules.
EVIDENCE_TO_VOID = 2e4
SINGLE_ALPHA = 5e-5
EVIDENCE_TO_CONVICT = 1e9


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
        abstained: whether the single-token rule had no bound that is rare enough for a token with
            a margin, so that this token was judged by the evidence alone.
    """

    violation: Violation | None
    log_evidence: float
    abstained: bool


def judge_sample(profile: Profile, strata: NDArray[np.int64], bins: NDArray[np.int64]) -> Finding:
    """Return what the rules say of a sample under its profile.

    Args:
        profile: the honest null of the miner's and the validator's stacks.
        strata: stratum of each token, in order [tokens].
        bins: bin of each token's margin [tokens].
    """
    trail, evidence = extend(Trail.empty(), log_factors(profile, strata, bins))
    found = [
        Violation(int(places[0]), reason)
        for places, reason in (
            (
                np.flatnonzero(evidence >= math.log(EVIDENCE_TO_VOID)),
                f"evidence above {EVIDENCE_TO_VOID:.0f}",
            ),
            (
                np.flatnonzero(bins >= single_bins(profile, len(bins))[strata]),
                "a margin too rare for a sample of this length",
            ),
        )
        if places.size
    ]
    return Finding(
        violation=min(found, key=lambda one: one.position, default=None),
        log_evidence=trail.peak,
        abstained=bool((single_bins(profile, len(bins))[strata[bins > 0]] >= _NONE).any()),
    )


_NONE = np.iinfo(np.int64).max


def single_bins(profile: Profile, length: int) -> NDArray[np.int64]:
    """Return the lowest bin that alone voids a sample of ``length`` tokens, by stratum [strata].

    Where no bound of a stratum is low enough the number is past every bin.
    """
    rare = profile.tails * max(1, length) <= SINGLE_ALPHA
    return np.where(rare.any(axis=1), rare.argmax(axis=1), _NONE)


def convicts(profile: Profile, trail: Trail) -> bool:
    """Say whether the evidence over a miner's audited tokens, in order, convicts it."""
    return profile.convicts and trail.peak >= math.log(EVIDENCE_TO_CONVICT)
