"""What margins honest miners show: the measured null of the evidence (the audit, section 3).

A profile is measured by ``reliquary calibrate`` for one family of models and one pair of stacks.
For each stratum of the validator's own entropy it holds how many honest tokens fell into each bin
of margins, and from that upper confidence bounds of the honest tails. Bounds are integers, so that
a profile has one canonical form and a digest.
"""

from bisect import bisect_left
from collections.abc import Sequence
from functools import cached_property, lru_cache
from hashlib import sha256
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import (
    BaseModel,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from protocol.canonical import canonical_json

# Upper edges of the bins of non-zero margins, in logits; what is above the last has a bin too.
EDGES = tuple(2.0**exponent for exponent in range(-9, 3))
# Bin 0 is a margin of exactly 0, bin j > 0 holds (EDGES[j - 2], EDGES[j - 1]].
BINS = len(EDGES) + 2
MAX_STRATA = 12
# Bounds are counted in units of this probability.
UNIT = 10**-12
ONE = 10**12
# A profile on fewer tokens a stratum voids, but never convicts.
MIN_STRATUM_TOKENS = 80_000

Bound = Annotated[int, Field(ge=1, le=ONE, strict=True)]
Count = Annotated[int, Field(ge=0, strict=True)]


class _Part(BaseModel, frozen=True, extra="forbid"):
    """Immutable, and refuses unknown members."""


class Side(_Part, frozen=True):
    """The stack of one side, as far as its arithmetic differs from others'.

    ``engine`` is ``vllm`` or ``transformers``; the dtypes are those of the weights and of the head.
    A side that is exact names the build and what lies beneath it too: the floor of two equal
    stacks is far below that of their kind, and any difference between them lifts it.
    """

    engine: str
    dtype: str
    head_dtype: str
    device: str
    version: str | None = None
    kernels: str | None = None
    parallelism: int | None = None

    @property
    def is_exact(self) -> bool:
        """Whether it is of one build and its kernels alone."""
        return self.version is not None

    @model_validator(mode="after")
    def _all_or_none(self) -> Self:
        beneath = (self.version, self.kernels, self.parallelism)
        if None in beneath and any(one is not None for one in beneath):
            raise ValueError("a side names version, kernels and parallelism, or none of them")
        return self

    @model_serializer(mode="wrap")
    def _without_none(self, plain: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in plain(self).items() if value is not None}


class Stratum(_Part, frozen=True):
    """Honest tokens whose entropy lies below ``entropy_below_micro`` and not in an earlier stratum.

    Attributes:
        entropy_below_micro: in millionths of a nat; None for the last stratum.
        tokens: honest tokens measured.
        counts: how many of them fell into each bin, [BINS].
        lift_percent: how many times as likely a margin is after another one in its sample; the
            bounds are raised by it, since they must hold given a sample's past.
        tails: upper bound of the probability of bin j or any later one in units of 1e-12, for
            j = 1 .. BINS - 1; not rising.
    """

    entropy_below_micro: Count | None
    tokens: Count
    counts: Annotated[tuple[Count, ...], Field(min_length=BINS, max_length=BINS)]
    lift_percent: Annotated[int, Field(ge=100, le=10_000, strict=True)] = 100
    tails: Annotated[tuple[Bound, ...], Field(min_length=BINS - 1, max_length=BINS - 1)]

    @model_validator(mode="after")
    def _check(self) -> Self:
        if sum(self.counts) != self.tokens:
            raise ValueError("counts do not add up to tokens")
        if any(later > earlier for earlier, later in zip(self.tails, self.tails[1:], strict=False)):
            raise ValueError("tails rise")
        return self


class Profile(_Part, frozen=True):
    """The honest margins of one family of models under one pair of stacks.

    Attributes:
        family: pattern of the models' names, as a shell has them.
        miner, validator: the stacks; None stands for any.
        measured: ISO date of the measurement.
        model: what it was measured on.
        confidence_percent: of all bounds at once.
        strata: by rising entropy, the last one open.
    """

    family: str
    miner: Side | None
    validator: Side | None
    measured: str
    model: str
    confidence_percent: Annotated[int, Field(ge=50, lt=100)]
    strata: Annotated[tuple[Stratum, ...], Field(min_length=1, max_length=MAX_STRATA)]

    @model_validator(mode="after")
    def _order(self) -> Self:
        *closed, last = [stratum.entropy_below_micro for stratum in self.strata]
        edges = [edge for edge in closed if edge is not None]
        if last is not None or len(edges) != len(closed) or edges != sorted(set(edges)):
            raise ValueError("strata must rise in entropy, and the last alone be open")
        return self

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the profile's canonical JSON, 64 hex digits."""
        return sha256(canonical_json(self.model_dump())).hexdigest()

    @cached_property
    def tokens(self) -> int:
        """Honest tokens measured in all strata."""
        return sum(stratum.tokens for stratum in self.strata)

    @cached_property
    def convicts(self) -> bool:
        """Whether enough was measured in every stratum to hold anything against a miner."""
        return all(stratum.tokens >= MIN_STRATUM_TOKENS for stratum in self.strata)

    @property
    def tails(self) -> NDArray[np.float64]:
        """Upper bounds of the probability of bin j or later, shape [strata, BINS]; 1 for j = 0.

        One array for all calls, which cannot be written to.
        """
        return _tails(tuple(stratum.tails for stratum in self.strata))

    def strata_of(self, entropies: NDArray[np.floating]) -> NDArray[np.int64]:
        """Return the number of the stratum of each entropy, in nats; shape as given."""
        edges = [stratum.entropy_below_micro or 0 for stratum in self.strata[:-1]]
        return np.searchsorted(np.array(edges), entropies * 1e6, side="right").astype(np.int64)


# Kept outside the profiles, whose equality an array among their attributes would break.
@lru_cache(maxsize=64)
def _tails(bounds: tuple[tuple[int, ...], ...]) -> NDArray[np.float64]:
    tails = np.array([[ONE, *row] for row in bounds], dtype=np.float64) * UNIT
    tails.flags.writeable = False
    return tails


def bin_of(margin: float) -> int:
    """Return the bin of a margin, in logits."""
    return 0 if margin == 0 else 1 + bisect_left(EDGES, margin)


def bins_of(margins: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the bin of each margin, in logits; shape as given."""
    bins = 1 + np.searchsorted(np.array(EDGES), margins, side="left")
    return np.where(margins == 0, 0, bins).astype(np.int64)


def count_bins(
    strata: NDArray[np.int64], bins: NDArray[np.int64], number: int
) -> NDArray[np.int64]:
    """Return how many tokens lie in each of ``number`` strata and each bin, [number, BINS]."""
    flat = np.bincount(strata * BINS + bins, minlength=number * BINS)
    return flat.reshape(number, BINS)


def falling(values: Sequence[int]) -> list[int]:
    """Return the least values that never rise and are nowhere below ``values``."""
    return np.maximum.accumulate(np.array(values, dtype=np.int64)[::-1])[::-1].tolist()
