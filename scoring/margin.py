"""The margin of a token (the audit, section 1) as one reads it: float64 NumPy.

How far, in logits, the model would have to move for a claimed id to be the drawn one. The sets are
conservative: SURE ids are kept however the logits move within d/2, MAYBE ids are kept for some such
move. ``scoring.margin_numba`` is the fast form and is held to this one.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np

from protocol.draw import reference
from protocol.sampling import Sampling

CAP = 16.0
STEPS = 18  # halvings of the cap, to a resolution of 6.1e-5


def margin(
    logits: np.ndarray, claimed: int, key: bytes, position: int, sampling: Sampling
) -> float:
    """Return the margin of ``claimed`` in logits, 0 for the drawn id and at most ``CAP``.

    Args:
        logits: [V], the validator's logits of ids 0 .. V-1.
        claimed: the id that the miner returned, 0 .. V-1.
        key: the sample's 32-byte draw key.
        position: 0 is the first completion token.
        sampling: the order's sampling.

    Raises:
        ValueError: the logits are not a distribution, or ``claimed`` is not one of their ids.
    """
    if not 0 <= claimed < len(logits):
        raise ValueError(f"id {claimed} is not one of the {len(logits)} ids of the draw")
    drawn = reference.draw(logits, key, position, sampling)
    return _Row.of(logits, key, position, sampling).margin(claimed, drawn)


def margins(logits: np.ndarray, key: bytes, position: int, sampling: Sampling) -> np.ndarray:
    """Return the margin of every id, float64 [V]; arguments and errors are those of ``margin``."""
    drawn = reference.draw(logits, key, position, sampling)
    row = _Row.of(logits, key, position, sampling)
    return np.array([row.margin(claimed, drawn) for claimed in range(len(logits))])


def bisect(possible: Callable[[float], bool]) -> float:
    """Return the smallest distance at which ``possible(distance)`` holds.

    It is rounded up to a multiple of ``CAP / 2**STEPS``, 0 where distance 0 will do and ``CAP``
    where nothing below it does.
    """
    if possible(0.0):
        return 0.0
    low, high = 0.0, CAP
    for _ in range(STEPS):
        middle = (low + high) / 2
        if possible(middle):
            high = middle
        else:
            low = middle
    return high


@dataclass(frozen=True)
class _Row:
    """One row of logits with its scores ``l + T g``, all float64 [V]."""

    logits: np.ndarray
    scores: np.ndarray
    sampling: Sampling

    @classmethod
    def of(cls, logits: np.ndarray, key: bytes, position: int, sampling: Sampling) -> Self:
        scores = reference.scores(logits, key, position, sampling.temperature)
        return cls(np.asarray(logits, dtype=np.float64), scores, sampling)

    def margin(self, claimed: int, drawn: int) -> float:
        if claimed == drawn:
            return 0.0
        return bisect(lambda distance: self.possible(claimed, distance))

    def possible(self, claimed: int, distance: float) -> bool:
        """Whether ``claimed`` could be drawn if every logit moved by at most distance/2."""
        sure, maybe = self._kept(distance)
        if not maybe[claimed] or not self._maybe_in_nucleus(claimed, distance, sure, maybe):
            return False
        rivals = np.flatnonzero(sure & (self.scores > self.scores[claimed] + distance))
        return not any(self._sure_in_nucleus(v, distance, sure, maybe) for v in rivals)

    def _kept(self, distance: float) -> tuple[np.ndarray, np.ndarray]:
        """The ids that min_p and top_k keep: surely, and maybe."""
        logits, sampling = self.logits, self.sampling
        sure = np.ones(len(logits), dtype=bool)
        maybe = sure.copy()
        if sampling.min_p > 0:
            floor = logits.max() + sampling.temperature * math.log(sampling.min_p)
            sure &= logits - distance >= floor
            maybe &= logits + distance >= floor
        if 0 < sampling.top_k < len(logits):
            ranked = np.sort(logits)[::-1]
            sure &= logits - distance > ranked[sampling.top_k]
            maybe &= logits + distance >= ranked[sampling.top_k - 1]
        return sure, maybe

    def _maybe_in_nucleus(
        self, claimed: int, distance: float, sure: np.ndarray, maybe: np.ndarray
    ) -> bool:
        ahead = sure & (self.logits > self.logits[claimed] + distance)
        return self._lead(ahead, maybe & ~ahead) - distance < self._edge()

    def _sure_in_nucleus(
        self, rival: int, distance: float, sure: np.ndarray, maybe: np.ndarray
    ) -> bool:
        ahead = maybe & (self.logits > self.logits[rival] - distance)
        ahead[rival] = False
        return self._lead(ahead, sure & ~ahead) + distance < self._edge()

    def _edge(self) -> float:
        """T logit(top_p); infinite where top_p is off."""
        top_p = self.sampling.top_p
        return self.sampling.temperature * math.log(top_p / (1 - top_p)) if top_p < 1 else math.inf

    def _lead(self, ahead: np.ndarray, rest: np.ndarray) -> float:
        """T logit(A / (A + R)) = T log A - T log R, for the masses of the two sets."""
        return self._soft_maximum(ahead) - self._soft_maximum(rest)

    def _soft_maximum(self, members: np.ndarray) -> float:
        """T times the logarithm of a set's mass: in logits, and exact however small the mass."""
        top = self.logits[members].max(initial=-math.inf)
        if top == -math.inf:
            return top
        temperature = self.sampling.temperature
        with np.errstate(over="ignore"):
            mass = np.exp((self.logits[members] - top) / temperature).sum()
        return float(top + temperature * math.log(mass))
