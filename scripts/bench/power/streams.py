"""How many tokens a stream of samples needs until the evidence passes a bound."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scoring.evidence import Trail, bounding_masses, extend, log_factors, pooled
from scoring.profile import Profile, bins_of, count_bins
from scoring.sample_rule import judge_sample
from scripts.calibrate.measure import Seen

RUNS = 60
BOUNDS = (1e4, 1e6, 1e9)


@dataclass(frozen=True)
class Needed:
    """Tokens until E passes a bound over several runs; ``math.inf`` where most never do."""

    median: float
    late: float  # 95 of 100 runs are through by then


@dataclass(frozen=True)
class Power:
    """What the evidence makes of a cheat, or of honest samples.

    Attributes:
        tokens: seen in all.
        mismatches: share of tokens that are not the drawn ones.
        needed: by bound of E, over streams of samples in random order.
        void: share of samples that are void by themselves.
        at_best: by bound of E, see ``at_best``.
    """

    tokens: int
    mismatches: float
    needed: dict[float, Needed]
    void: float
    at_best: dict[float, float]


def power(
    profile: Profile, samples: Sequence[Seen], prefix: Sequence[Seen] = (), runs: int = RUNS
) -> Power:
    """Return how fast the evidence over ``samples`` grows.

    Args:
        profile: the honest null.
        samples: of one cheat; each run takes them in an order of its own.
        prefix: honest samples that come first and are not counted.
        runs: orders that are tried.
    """
    factors = [_factors(profile, sample) for sample in samples]
    start, _ = extend(
        Trail.empty(),
        np.concatenate([_factors(profile, sample) for sample in prefix], axis=1)
        if prefix
        else np.empty((len(factors[0]), 0)),
    )
    found: dict[float, list[float]] = {bound: [] for bound in BOUNDS}
    for run in range(runs):
        order = np.random.default_rng(run).permutation(len(factors))
        _, evidence = extend(start, np.concatenate([factors[at] for at in order], axis=1))
        for bound in BOUNDS:
            passed = evidence >= math.log(bound)
            found[bound].append(float(passed.argmax() + 1) if passed.any() else math.inf)
    tokens = sum(len(sample.margins) for sample in samples)
    return Power(
        tokens=tokens,
        mismatches=sum(int(sample.mismatches.sum()) for sample in samples) / tokens,
        needed={
            bound: Needed(_quantile(counts, 0.5), _quantile(counts, 0.95))
            for bound, counts in found.items()
        },
        void=sum(is_void(profile, sample) for sample in samples) / len(samples),
        at_best={bound: at_best(profile, samples, bound) for bound in BOUNDS},
    )


def at_best(profile: Profile, samples: Sequence[Seen], bound: float) -> float:
    """Return the tokens in which no evidence over strata and bins of margins passes ``bound``.

    It knows beforehand how often the cheat shows each bin in each stratum, so its logarithm grows
    by the most that any factor could give whose expectation is at most 1 for all honest masses
    below the profile's bounds.
    """
    strata = profile.strata_of(np.concatenate([sample.entropies for sample in samples]))
    bins = bins_of(np.concatenate([sample.margins for sample in samples]))
    counts = count_bins(strata, bins, len(profile.strata))
    masses = bounding_masses(tuple(stratum.tails for stratum in profile.strata))
    grown = 0.0
    for row, honest in zip(counts, masses, strict=True):
        if row.any():
            ratios = np.array(pooled(row / row.sum(), honest))
            grown += float(row[row > 0] @ np.log(ratios[row > 0]))
    return math.log(bound) * len(bins) / grown if grown > 0 else math.inf


def is_void(profile: Profile, sample: Seen) -> bool:
    """Say whether a sample is void by itself."""
    places = np.flatnonzero(sample.margins > 0)
    strata = profile.strata_of(sample.entropies[places])
    bins = bins_of(sample.margins[places])
    marks = list(zip(places.tolist(), strata.tolist(), bins.tolist(), strict=True))
    return judge_sample(profile, len(sample.margins), marks).violation is not None


def _factors(profile: Profile, sample: Seen) -> NDArray[np.float64]:
    strata = profile.strata_of(sample.entropies)
    return log_factors(profile, strata, bins_of(sample.margins))


def _quantile(counts: Sequence[float], share: float) -> float:
    """Return the least count that a share of the runs does not pass."""
    return sorted(counts)[min(len(counts) - 1, math.ceil(share * len(counts)) - 1)]
