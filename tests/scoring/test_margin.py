"""The margin by its definition: published vectors, and what an honest miner can never show."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from protocol.draw import reference
from protocol.draw.key import key_words
from protocol.sampling import Sampling
from scoring.margin import CAP, STEPS, bisect, margin, margins
from scoring.margin_numba import judge_rows

VECTORS = json.loads(
    (Path(__file__).parents[1] / "protocol" / "forced-draw.vectors.json").read_text()
)
STEP = CAP / 2**STEPS
KEY = bytes(range(32))

samplings = st.builds(
    Sampling,
    temperature=st.sampled_from([1e-6, 1e-2, 0.6, 1.0, 4.0]),
    top_k=st.one_of(st.just(0), st.integers(1, 12)),
    top_p=st.one_of(st.just(1.0), st.sampled_from([0.05, 0.5, 0.95, 0.999999])),
    min_p=st.one_of(st.just(0.0), st.sampled_from([0.05, 0.5, 0.99])),
)
rows = arrays(
    np.float32,
    st.integers(1, 24),
    elements=st.one_of(st.floats(-12, 12, width=16), st.integers(-2, 2).map(float)),
)


@pytest.mark.parametrize("vector", VECTORS["draws"])
def test_margins_of_the_vectors(vector: dict):
    sampling = Sampling(
        **{name: vector[name] for name in ("temperature", "top_k", "top_p", "min_p")}
    )
    logits, key = np.array(vector["logits"]), bytes.fromhex(vector["key"])
    found = margins(logits, key, vector["position"], sampling)
    # Both sides stop within 1e-4 of the smallest distance, and the file prints four decimals.
    assert found == pytest.approx(vector["margins"], abs=1.5e-4)
    assert found[vector["token"]] == 0


@settings(max_examples=300)
@given(
    logits=rows,
    delta=st.sampled_from([1e-3, 0.02, 0.3, 2.0]),
    moves=st.data(),
    sampling=samplings,
    position=st.integers(0, 10_000),
)
def test_honest_noise_shows_at_most_twice_its_size(
    logits: np.ndarray, delta: float, moves, sampling: Sampling, position: int
):
    # The ends of the interval are what a filter's edge has to bear.
    sizes = st.one_of(st.sampled_from([-1.0, 0.0, 1.0]), st.floats(-1, 1))
    errors = delta * moves.draw(arrays(np.float64, len(logits), elements=sizes))
    claimed = reference.draw(logits + errors, KEY, position, sampling)
    bound = 2 * delta + STEP + 1e-9
    assert margin(logits, claimed, KEY, position, sampling) <= bound
    _, fast = judge_rows(
        logits[None],
        np.array([claimed]),
        key_words(KEY)[None],
        np.array([position]),
        sampling,
        len(logits),
    )
    assert fast[0] <= bound


@settings(max_examples=50)
@given(logits=rows, sampling=samplings)
def test_margins_are_in_range_and_the_drawn_id_shows_none(logits: np.ndarray, sampling: Sampling):
    found = margins(logits, KEY, 0, sampling)
    assert ((found >= 0) & (found <= CAP)).all()
    assert found[reference.draw(logits, KEY, 0, sampling)] == 0


def test_unfiltered_margin_is_the_gap_of_the_scores():
    logits = np.array([1.0, 0.5, -2.0, 3.0])
    scores = reference.scores(logits, KEY, 5, 1.0)
    gaps = scores.max() - scores
    assert margins(logits, KEY, 5, Sampling()) == pytest.approx(gaps, abs=STEP)


def test_an_id_past_top_k_pays_its_distance_to_the_edge():
    logits = np.array([8.0, 7.75, 4.0])
    assert margin(logits, 2, KEY, 0, Sampling(top_k=1, temperature=1e-6)) == pytest.approx(
        4, abs=2 * STEP
    )


def test_a_tie_at_top_ks_edge_is_free_of_the_filter():
    # Ids 1 and 2 tie at the edge: both are kept, neither is sure.
    logits = np.array([0.0, 0.0])
    assert margins(logits, KEY, 0, Sampling(top_k=1)).tolist() == [0.0, 0.0]


def test_far_away_and_impossible_ids_are_capped():
    logits = np.array([40.0, 0.0, -math.inf])
    assert margins(logits, KEY, 0, Sampling()).tolist() == [0, CAP, CAP]


def test_bisection_rounds_up():
    assert bisect(lambda distance: True) == 0
    assert bisect(lambda distance: False) == CAP
    assert bisect(lambda distance: distance >= 0.3) == math.ceil(0.3 / STEP) * STEP


@pytest.mark.parametrize("claimed", [-1, 3])
def test_an_id_outside_the_draw_is_refused(claimed: int):
    with pytest.raises(ValueError, match="not one of the 3 ids"):
        margin(np.zeros(3), claimed, KEY, 0, Sampling())


def test_logits_that_are_no_distribution_are_refused():
    with pytest.raises(ValueError, match="logits must"):
        margin(np.array([0.0, math.nan]), 0, KEY, 0, Sampling())
