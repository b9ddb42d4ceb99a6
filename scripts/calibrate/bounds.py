"""Upper confidence bounds of the tails of counted margins."""

from collections.abc import Sequence

import numpy as np
from scipy.stats import beta

from scoring.profile import ONE, falling


def tail_bounds(counts: Sequence[int], design_effect: float, alpha: float) -> list[int]:
    """Return one-sided upper bounds of the probability of bin j or later, j = 1 .., in 1e-12.

    Clopper and Pearson's exact bound ("The use of confidence or fiducial limits illustrated in the
    case of the binomial", 1934), corrected for the number of bins (Bonferroni). Tokens of one
    sample are not independent: both counts are divided by the design effect (Kish 1965).

    Args:
        counts: tokens by bin, bin 0 first.
        design_effect: variance of the count over that of independent tokens, at least 1.
        alpha: the chance that any of the bounds is too low.
    """
    total = sum(counts) / design_effect
    exceeding = np.cumsum(counts[::-1])[::-1][1:] / design_effect
    level = 1 - alpha / len(exceeding)
    with np.errstate(invalid="ignore"):
        bounds = beta.ppf(level, exceeding + 1, np.maximum(total - exceeding, 1e-9))
    units = np.ceil(np.clip(np.nan_to_num(bounds, nan=1.0), 0, 1) * ONE).astype(np.int64)
    return falling(np.clip(units, 1, ONE).tolist())
