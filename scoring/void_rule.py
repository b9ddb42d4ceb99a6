"""When the margins of a sample void it: fixed counts.

Single honest tokens reach some hundredths of a logit, rarely tenths; a sample that was not drawn
as due shows margins of whole logits within a few tokens. One margin can void a sample only where
it is past what any rounding explains; smaller ones must come in numbers.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

RULE = "fixed-counts/1"
# A claim further than this from what is possible voids its sample alone, in logits.
SINGLE_LIMIT = 4.0
# (count, margin): so many margins above so many logits within one window void a sample.
COUNT_LIMITS = ((6, 0.25), (4, 0.5), (3, 1.0))
# Counts are taken over any so many consecutive tokens, so that length alone voids nothing.
WINDOW = 1_000


@dataclass(frozen=True, slots=True)
class Violation:
    """Where the rule first fails: the token that completes the case, and which part of the rule."""

    position: int
    reason: str


def violation(margins: NDArray[np.float64]) -> Violation | None:
    """Return the first violation in a sample, None where it passes.

    Args:
        margins: of every token in order, in logits, shape [tokens].

    Raises:
        ValueError: a margin is negative or no number.
    """
    if not (margins >= 0).all():
        raise ValueError("margins are numbers of at least 0")
    found = [_single(margins), *(_counted(margins, *limit) for limit in COUNT_LIMITS)]
    return min((one for one in found if one is not None), key=_place, default=None)


def _place(found: Violation) -> int:
    return found.position


def _single(margins: NDArray[np.float64]) -> Violation | None:
    places = np.flatnonzero(margins > SINGLE_LIMIT)
    if places.size == 0:
        return None
    return Violation(int(places[0]), f"a margin above {SINGLE_LIMIT:g} logits")


def _counted(margins: NDArray[np.float64], count: int, limit: float) -> Violation | None:
    places = np.flatnonzero(margins > limit)
    # The count is met at a place whose (count - 1)-th predecessor lies in the same window.
    spans = places[count - 1 :] - places[: max(0, places.size - count + 1)]
    met = np.flatnonzero(spans < WINDOW)
    if met.size == 0:
        return None
    reason = f"{count} margins above {limit:g} logits within {WINDOW} tokens"
    return Violation(int(places[count - 1 + met[0]]), reason)
