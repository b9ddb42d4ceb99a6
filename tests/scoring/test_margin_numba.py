"""The fast margins are equal to the readable ones."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from protocol.draw import reference
from protocol.draw.key import key_words
from protocol.sampling import Sampling
from scoring.margin import CAP, STEPS, margin, margins
from scoring.margin_numba import judge_rows

STEP = CAP / 2**STEPS
KEY = bytes(range(32))

samplings = st.builds(
    Sampling,
    temperature=st.sampled_from([1e-6, 1e-3, 0.1, 0.6, 1.0, 4.0]),
    top_k=st.one_of(st.just(0), st.integers(1, 30)),
    top_p=st.one_of(st.just(1.0), st.floats(0.01, 0.9999)),
    min_p=st.one_of(st.just(0.0), st.floats(0, 0.99)),
)
elements = st.one_of(
    st.floats(-20, 20, width=32), st.integers(-3, 3).map(float), st.just(-math.inf)
)
rows = arrays(np.float32, st.integers(1, 24), elements=elements).filter(
    lambda row: row.max() > -math.inf
)


def judged(
    logits: np.ndarray, claimed: np.ndarray, position: int, sampling: Sampling, size: int
) -> tuple[np.ndarray, np.ndarray]:
    """Judge several claims about one row of logits."""
    count = len(claimed)
    return judge_rows(
        np.tile(logits, (count, 1)),
        claimed,
        np.tile(key_words(KEY), (count, 1)),
        np.full(count, position),
        sampling,
        size,
    )


@settings(max_examples=200)
@given(
    logits=rows,
    position=st.integers(0, 2**32 - 1),
    sampling=samplings,
    padding=st.integers(0, 3),
)
def test_every_id_of_a_row(logits: np.ndarray, position: int, sampling: Sampling, padding: int):
    size = len(logits)
    padded = np.concatenate([logits, np.full(padding, 50, dtype=np.float32)])
    drawn, found = judged(padded, np.arange(size), position, sampling, size)
    assert (drawn == reference.draw(logits, KEY, position, sampling)).all()
    # Rounding can move a distance across one point of the bisection's grid.
    assert found == pytest.approx(margins(logits, KEY, position, sampling), abs=STEP + 1e-9)


FILTERS = [
    Sampling(),
    Sampling(temperature=0.6, top_k=20, top_p=0.95),
    Sampling(top_p=0.9),
    Sampling(top_k=50),
    Sampling(min_p=0.05, top_p=0.99),
]


@settings(max_examples=10)
@given(
    seed=st.integers(0, 2**32 - 1),
    spread=st.sampled_from([0.5, 3.0]),
    sampling=st.sampled_from(FILTERS),
)
def test_likely_and_unlikely_claims_over_many_blocks(seed: int, spread: float, sampling: Sampling):
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, spread, 3_000).astype(np.float32)
    claimed = np.array([np.argsort(-logits)[rng.integers(2, 60)], rng.integers(3_000)])
    _, found = judged(logits, claimed, 3, sampling, 3_000)
    expected = [margin(logits, int(token), KEY, 3, sampling) for token in claimed]
    assert found == pytest.approx(expected, abs=STEP + 1e-9)


@pytest.mark.parametrize("sampling", FILTERS[:3], ids=str)
def test_a_claim_at_a_whole_vocabulary(sampling: Sampling):
    logits = np.random.default_rng(7).normal(0, 3, 151_936).astype(np.float32)
    claimed = np.argsort(-logits)[5]
    _, found = judged(logits, np.array([claimed]), 3, sampling, 151_936)
    expected = margin(logits, int(claimed), KEY, 3, sampling)
    assert 0 < expected < CAP
    assert found[0] == pytest.approx(expected, abs=STEP + 1e-9)


def test_rows_keep_their_own_keys_and_positions():
    rng = np.random.default_rng(1)
    logits = rng.normal(0, 1, (6, 50)).astype(np.float32)
    keys = [rng.bytes(32) for _ in range(6)]
    claimed, sampling = rng.integers(0, 50, 6), Sampling(top_p=0.9)
    drawn, found = judge_rows(
        logits, claimed, np.stack([key_words(key) for key in keys]), np.arange(6), sampling, 50
    )
    for row in range(6):
        assert drawn[row] == reference.draw(logits[row], keys[row], row, sampling)
        expected = margin(logits[row], int(claimed[row]), keys[row], row, sampling)
        assert found[row] == pytest.approx(expected, abs=STEP + 1e-9)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_row_that_is_no_distribution_has_no_margin(bad: float):
    logits = np.array([0, bad, 1], dtype=np.float32)
    drawn, found = judged(logits, np.array([0]), 0, Sampling(), 3)
    assert drawn.tolist() == [-1]
    assert math.isnan(found[0])


@pytest.mark.parametrize("claimed", [-1, 3])
def test_a_claim_outside_the_draw_is_refused(claimed: int):
    with pytest.raises(ValueError, match="claimed ids must lie in"):
        judged(np.zeros(4, dtype=np.float32), np.array([claimed]), 0, Sampling(), 3)


def test_as_many_claims_as_rows():
    with pytest.raises(ValueError, match="claimed must have shape"):
        judge_rows(
            np.zeros((2, 3), np.float32), np.zeros(1), np.zeros((2, 4)), np.zeros(2), Sampling(), 3
        )
