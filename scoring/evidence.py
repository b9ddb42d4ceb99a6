"""The evidence against an honest draw: one statistic over margins (the audit, section 3).

For every token in order the factor is ``f = 1 - r + r h(bin)`` with ``h = D / q``, pooled so that
it does not decrease over the bins. D is the alternative, uniform over the bins of non-zero margins;
q comes from a profile's upper bounds U_j of the honest tails, ``q_j = U_j - U_(j+1)``. Whatever the
honest masses are, as long as every tail stays below its bound,

    E[h | past] = h_0 + sum_j (h_j - h_(j-1)) P(bin >= j | past) <= sum_j h_j q_j = sum_j D_j = 1,

by summation by parts, since h does not decrease and pooling keeps the sum. So the product of the
factors is a test supermartingale, and passes 1/alpha with probability at most alpha whenever one
stops looking (Ville 1939; Ramdas, Gruenwald, Vovk, Shafer, "Game-theoretic statistics and safe
anytime-valid inference", 2023). Mixtures of supermartingales with fixed weights are again such:

- over r, since nobody knows how often a cheat shows;
- over the block of 32 tokens at which the product begins, with weights 1 / ((b + 1)(b + 2)), so
  that a long honest prefix does not buy a dishonest tail. What has not begun counts with its weight
  alone.

As D leaves bin 0 out, a margin of 0 has the factor 1 - r in every stratum: the bins of the other
tokens say everything about a sample.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Self

import numpy as np
from numpy.typing import NDArray

from scoring.profile import BINS, ONE, UNIT, Profile

# How often a cheat's tokens may show a margin, mixed with equal weights.
RATES = (0.5, 0.2, 0.08, 0.03, 0.01, 0.003)
BLOCK = 32


@dataclass(frozen=True, slots=True)
class Trail:
    """The evidence over a run of tokens so far.

    Attributes:
        tokens: how many there were.
        log_sums: for each rate, the logarithm of the weighted sum of the products that have begun.
        peak: the largest natural logarithm of E so far.
    """

    tokens: int
    log_sums: tuple[float, ...]
    peak: float

    @classmethod
    def empty(cls) -> Self:
        """Return the evidence before the first token: E is 1."""
        return cls(0, (-math.inf,) * len(RATES), 0.0)


def log_gains(bounds: tuple[tuple[int, ...], ...]) -> NDArray[np.float64]:
    """Return the logarithms of h, shape [strata, BINS]; -inf for bin 0.

    Args:
        bounds: the ``tails`` of each stratum of a profile.
    """
    alternative = np.full(BINS, 1 / (BINS - 1))
    alternative[0] = 0.0
    with np.errstate(divide="ignore"):
        return np.log(np.array([pooled(alternative, row) for row in bounding_masses(bounds)]))


def bounding_masses(bounds: tuple[tuple[int, ...], ...]) -> NDArray[np.float64]:
    """Return q, the masses of the bins whose tails are the bounds, [strata, BINS]."""
    tails = np.array([[ONE, *row, 0] for row in bounds], dtype=np.float64) * UNIT
    return tails[:, :-1] - tails[:, 1:]


def pooled(alternative: NDArray[np.float64], masses: NDArray[np.float64]) -> list[float]:
    """Return alternative/masses, neighbours merged until the ratio does not decrease."""
    blocks: list[tuple[float, float, int]] = []
    for above, below in zip(alternative.tolist(), masses.tolist(), strict=True):
        block = (above, below, 1)
        # Ratios are compared crosswise: a mass may be 0.
        while blocks and blocks[-1][0] * block[1] >= block[0] * blocks[-1][1]:
            last = blocks.pop()
            block = (last[0] + block[0], last[1] + block[1], last[2] + block[2])
        blocks.append(block)
    return [above / below for above, below, width in blocks for _ in range(width)]


def log_factors(
    profile: Profile, strata: NDArray[np.int64], bins: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the logarithm of f of each token under each rate, shape [rates, tokens].

    Args:
        profile: the honest null.
        strata: stratum of each token [tokens]; without effect where the bin is 0.
        bins: bin of each token's margin [tokens].
    """
    return _log_factors(tuple(stratum.tails for stratum in profile.strata))[:, strata, bins]


@lru_cache(maxsize=64)
def _log_factors(bounds: tuple[tuple[int, ...], ...]) -> NDArray[np.float64]:
    """Return what ``log_factors`` looks up, [rates, strata, BINS]."""
    rates = np.array(RATES)[:, None, None]
    return np.logaddexp(np.log1p(-rates), np.log(rates) + log_gains(bounds))


def extend(trail: Trail, factors: NDArray[np.float64]) -> tuple[Trail, NDArray[np.float64]]:
    """Return the trail after more tokens, and the natural logarithm of E after each of them.

    Args:
        trail: the evidence so far.
        factors: of the tokens that follow, as ``log_factors`` gives them, [rates, tokens].
    """
    count = factors.shape[1]
    if count == 0:
        return trail, np.empty(0)
    products = np.cumsum(factors, axis=1)
    starts = np.arange(-trail.tokens % BLOCK, count, BLOCK)
    sums = _sums(trail, products, starts, factors)
    begun = np.searchsorted(starts, np.arange(count), side="right") + -(-trail.tokens // BLOCK)
    waiting = -np.log1p(begun)  # the weights of all blocks from number ``begun`` on add up to this
    mixed = np.logaddexp.reduce(sums, axis=0) - math.log(len(RATES))
    evidence = np.logaddexp(mixed, waiting)
    peak = max(trail.peak, float(evidence.max()))
    return Trail(trail.tokens + count, tuple(sums[:, -1].tolist()), peak), evidence


def _sums(
    trail: Trail,
    products: NDArray[np.float64],
    starts: NDArray[np.int64],
    factors: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return the logarithm of the sum of begun products after each token, [rates, tokens].

    A product that begins at token s is ``products[t] - products[s - 1]`` at token t.
    """
    before = products[:, starts] - factors[:, starts]
    blocks = (trail.tokens + starts) // BLOCK
    weights = -np.log((blocks + 1.0) * (blocks + 2.0))
    offsets = np.concatenate([np.array(trail.log_sums)[:, None], weights - before], axis=1)
    running = np.logaddexp.accumulate(offsets, axis=1)
    at = np.searchsorted(starts, np.arange(products.shape[1]), side="right")
    return products + running[:, at]
