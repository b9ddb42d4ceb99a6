"""Upper confidence bounds of the tails of counted margins."""

from collections.abc import Sequence

import numpy as np
from scipy.stats import beta

from scoring.profile import ONE, falling


def tail_bounds(counts: Sequence[int], alpha: float) -> list[int]:
    """Return one-sided upper bounds of the probability of bin j or later, j = 1 .., in 1e-12.

    Clopper and Pearson's exact bound ("The use of confidence or fiducial limits illustrated in the
    case of the binomial", 1934), corrected for the number of bins (Bonferroni).

    Args:
        counts: tokens by bin, bin 0 first.
        alpha: the chance that any of the bounds is too low.
    """
    total = sum(counts)
    exceeding = np.cumsum(counts[::-1])[::-1][1:]
    level = 1 - alpha / len(exceeding)
    with np.errstate(invalid="ignore"):
        bounds = beta.ppf(level, exceeding + 1, total - exceeding)
    # All of the tokens exceed: there is no bound below 1.
    bounds = np.where(exceeding >= total, 1.0, bounds)
    return falling(np.clip(np.ceil(bounds * ONE).astype(np.int64), 1, ONE).tolist())


def raised(tails: Sequence[int], percent: int) -> list[int]:
    """Return bounds raised to ``percent`` of what they are, at most 1."""
    return [min(ONE, -(-bound * percent // 100)) for bound in tails]
