"""A profile from what was seen of honest samples."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scoring.profile import Profile, Side, Stratum, bins_of, count_bins
from scripts.calibrate.bounds import raised, tail_bounds
from scripts.calibrate.measure import Seen

CONFIDENCE_PERCENT = 99
STRATA = 6
# So many tokens leave bounds that one margin can void a short answer by; fewer strata before that.
STRATUM_TOKENS = 150_000


@dataclass(frozen=True)
class Origin:
    """Where a profile comes from; the members are those of ``Profile``."""

    family: str
    miner: Side
    validator: Side
    measured: str
    model: str


def make_profile(samples: Sequence[Seen], origin: Origin) -> Profile:
    """Return the profile of honest samples.

    Args:
        samples: at least one, each with a token.
        origin: whose they are.
    """
    entropies = np.concatenate([sample.entropies for sample in samples])
    bins = bins_of(np.concatenate([sample.margins for sample in samples]))
    edges = _edges(entropies)
    strata = np.searchsorted(np.array(edges), entropies * 1e6, side="right")
    counts = count_bins(strata, bins, len(edges) + 1)
    later = _after_a_margin(samples, bins)
    alpha = (100 - CONFIDENCE_PERCENT) / 100 / (len(edges) + 1)
    return Profile(
        **vars(origin),
        confidence_percent=CONFIDENCE_PERCENT,
        strata=tuple(
            _stratum(edge, counts[number].tolist(), _lift(bins, later, strata == number), alpha)
            for number, edge in enumerate([*edges, None])
        ),
    )


def _stratum(edge: int | None, counts: list[int], lift: float, alpha: float) -> Stratum:
    percent = round(100 * lift)
    return Stratum(
        entropy_below_micro=edge,
        tokens=sum(counts),
        counts=tuple(counts),
        lift_percent=percent,
        tails=tuple(raised(tail_bounds(counts, alpha), percent)),
    )


def _edges(entropies: NDArray[np.float32]) -> list[int]:
    """Return the upper edges of all strata but the last, in millionths of a nat."""
    number = int(max(1, min(STRATA, len(entropies) // STRATUM_TOKENS)))
    shares = np.arange(1, number) / number
    edges = np.ceil(np.quantile(entropies, shares).astype(np.float64) * 1e6).astype(int)
    return sorted(set(edges.tolist()) - {0})


def _after_a_margin(samples: Sequence[Seen], bins: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Say of each token whether an earlier one of its sample has a margin."""
    found, start = np.zeros(len(bins), dtype=bool), 0
    for sample in samples:
        stop = start + len(sample.margins)
        found[start + 1 : stop] = np.maximum.accumulate(bins[start : stop - 1] > 0)
        start = stop
    return found


def _lift(bins: NDArray[np.int64], later: NDArray[np.bool_], inside: NDArray[np.bool_]) -> float:
    """Return how many times as likely a margin is after another one in its sample, at least 1.

    The evidence needs bounds that hold given a sample's past, and honest margins cluster: some
    texts have more near ties than others.
    """
    margins, after = bins[inside] > 0, later[inside]
    if not margins.any() or not after.any():
        return 1.0
    return float(max(1.0, margins[after].mean() / margins.mean()))
