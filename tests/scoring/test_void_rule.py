"""The fixed counts: what voids a sample, what does not, and where the case is complete."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.void_rule import COUNT_LIMITS, SINGLE_LIMIT, WINDOW, violation


def margins_at(length: int, places: dict[int, float]) -> np.ndarray:
    margins = np.zeros(length)
    for place, margin in places.items():
        margins[place] = margin
    return margins


def test_honest_margins_pass():
    assert violation(np.zeros(500)) is None
    assert violation(margins_at(500, {3: 0.2, 90: 0.9, 91: 0.4})) is None


def test_single_margin_voids_only_above_its_limit():
    assert violation(margins_at(20, {7: SINGLE_LIMIT})) is None
    found = violation(margins_at(20, {7: SINGLE_LIMIT + 0.01}))
    assert found is not None
    assert (found.position, found.reason) == (7, "a margin above 4 logits")


@pytest.mark.parametrize(("count", "limit"), COUNT_LIMITS)
def test_counts_void_where_the_last_margin_completes_them(count: int, limit: float):
    places = {10 * place: limit + 0.001 for place in range(count)}
    found = violation(margins_at(100, places))
    assert found is not None
    assert found.position == 10 * (count - 1)
    assert found.reason == f"{count} margins above {limit:g} logits within 1000 tokens"
    del places[0]
    assert violation(margins_at(100, places)) is None
    at_the_limit = {10 * place: limit for place in range(count)}
    assert violation(margins_at(100, at_the_limit)) is None


def test_counts_are_taken_over_windows_of_a_thousand_tokens():
    spread = {0: 1.5, 500: 1.5, WINDOW: 1.5}
    assert violation(margins_at(3_000, spread)) is None
    close = {1: 1.5, 500: 1.5, WINDOW: 1.5}
    found = violation(margins_at(3_000, close))
    assert found is not None
    assert found.position == WINDOW


def test_the_first_case_names_the_position():
    found = violation(margins_at(50, {30: 9.0, 3: 1.2, 5: 1.2, 8: 1.2}))
    assert found is not None
    assert (found.position, found.reason) == (8, "3 margins above 1 logits within 1000 tokens")


def test_no_tokens_show_nothing():
    assert violation(np.zeros(0)) is None


@pytest.mark.parametrize("bad", [-0.1, float("nan")])
def test_margins_that_are_none_are_refused(bad: float):
    with pytest.raises(ValueError, match="margins"):
        violation(np.array([0.0, bad]))


@given(st.lists(st.sampled_from([0.0, 0.1, 0.3, 0.7, 1.5, 5.0]), max_size=40), st.integers(0, 30))
def test_equals_counting_in_every_window(tail: list[float], gap: int):
    margins = np.concatenate([np.zeros(WINDOW - 20), tail, np.zeros(gap), tail])
    found = violation(margins)
    assert (found is None) == (not any(_void(margins[: end + 1]) for end in range(margins.size)))
    if found is not None:
        assert _void(margins[: found.position + 1])
        assert not any(_void(margins[: end + 1]) for end in range(found.position))


def _void(margins: np.ndarray) -> bool:
    window = margins[-WINDOW:]
    counted = any((window > limit).sum() >= count for count, limit in COUNT_LIMITS)
    return counted or bool((margins > SINGLE_LIMIT).any())
