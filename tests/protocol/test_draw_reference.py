"""The readable draw: every published vector, and what the text says about edges and ties."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from protocol.draw.reference import draw, gumbel, kept, scores
from protocol.sampling import Sampling

VECTORS = json.loads((Path(__file__).parent / "forced-draw.vectors.json").read_text())
KEY = bytes(range(32))


def sampling_of(vector: dict) -> Sampling:
    return Sampling(**{name: vector[name] for name in ("temperature", "top_k", "top_p", "min_p")})


@pytest.mark.parametrize("vector", VECTORS["draws"])
def test_draws_of_the_vectors(vector: dict):
    logits, sampling = np.array(vector["logits"]), sampling_of(vector)
    assert np.flatnonzero(kept(logits, sampling)).tolist() == vector["kept"]
    found = draw(logits, bytes.fromhex(vector["key"]), vector["position"], sampling)
    assert found == vector["token"]


@pytest.mark.parametrize(
    ("logits", "filters", "expected"),
    [
        pytest.param([0, 1, 2, 3], {}, [0, 1, 2, 3], id="no filter keeps all"),
        pytest.param([0, 1, 2, 3], {"top_k": 2}, [2, 3], id="top_k"),
        pytest.param([2, 1, 2, 3], {"top_k": 2}, [0, 2, 3], id="ties at top_k's edge stay"),
        pytest.param([0, 1], {"top_k": 9}, [0, 1], id="top_k past the vocabulary keeps all"),
        pytest.param([0, 0, 0, 0], {"top_p": 0.5}, [0, 1], id="equal masses go by rising id"),
        pytest.param([0, 0, 0, 0], {"top_p": 0.51}, [0, 1, 2], id="the crossing id stays"),
        pytest.param([0, 0, 0, 0], {"top_p": 0.25}, [0], id="mass before equal to top_p is out"),
        pytest.param([1, 5, 1], {"top_p": 1e-9}, [1], id="the first id always stays"),
        pytest.param([0, 0, 5, 5], {"top_k": 2, "top_p": 0.6}, [2, 3], id="top_p after top_k"),
        pytest.param(
            [0.0] * 8 + [5.0] * 2, {"top_k": 2, "top_p": 0.5}, [8], id="top_p is renormalised"
        ),
        pytest.param([0, math.log(4)], {"min_p": 0.2}, [0, 1], id="min_p below the ratio"),
        pytest.param([0, math.log(4)], {"min_p": 0.3}, [1], id="min_p above the ratio"),
        pytest.param(
            [0, math.log(4)], {"min_p": 0.3, "temperature": 2}, [0, 1], id="min_p at a temperature"
        ),
        pytest.param(
            [3, 3, 3, 0], {"min_p": 0.5, "top_k": 3, "top_p": 0.5}, [0, 1], id="all three"
        ),
        pytest.param(
            [-math.inf, 0, -math.inf], {"top_p": 0.9}, [1], id="impossible ids have no mass"
        ),
    ],
)
def test_filters(logits: list[float], filters: dict, expected: list[int]):
    assert np.flatnonzero(kept(np.array(logits), Sampling(**filters))).tolist() == expected


def test_the_lower_id_wins_a_tie():
    # A temperature below the logits' resolution leaves equal scores.
    assert draw(np.array([1.0, 5.0, 5.0]), KEY, 0, Sampling(temperature=1e-30)) == 1


@pytest.mark.parametrize(
    "logits", [[0.0, math.nan], [math.inf, 0.0], [-math.inf, -math.inf], [], [[0.0, 1.0]]]
)
def test_what_is_no_distribution_is_refused(logits: list):
    with pytest.raises(ValueError, match="logits must"):
        draw(np.array(logits), KEY, 0, Sampling())


rows = arrays(
    np.float64,
    st.integers(1, 40),
    elements=st.one_of(st.integers(-4, 4).map(float), st.floats(-30, 30)),
)
samplings = st.builds(
    Sampling,
    temperature=st.sampled_from([1e-6, 0.3, 1.0, 4.0]),
    top_k=st.integers(0, 45),
    top_p=st.one_of(st.just(1.0), st.floats(0.01, 1)),
    min_p=st.one_of(st.just(0.0), st.floats(0, 0.99)),
)


@given(logits=rows, sampling=samplings, position=st.integers(0, 2**32 - 1))
def test_the_drawn_id_is_the_best_kept_one(logits: np.ndarray, sampling: Sampling, position: int):
    drawn, keep = draw(logits, KEY, position, sampling), kept(logits, sampling)
    perturbed = logits + sampling.temperature * gumbel(KEY, position, np.arange(len(logits)))
    assert (perturbed == scores(logits, KEY, position, sampling.temperature)).all()
    assert keep[drawn]
    assert perturbed[drawn] == perturbed[keep].max()


@given(logits=rows, sampling=samplings)
def test_what_is_kept_is_a_prefix_by_falling_logit(logits: np.ndarray, sampling: Sampling):
    keep = kept(logits, sampling)
    order = np.lexsort((np.arange(len(logits)), -logits))
    count = keep.sum()
    assert count >= 1
    assert keep[order[:count]].all()
