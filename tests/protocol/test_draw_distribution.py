"""Drawn tokens follow softmax(l / T) over what each filter keeps."""

import numpy as np
import pytest
import torch
from scipy.stats import chi2_contingency, chisquare

from protocol.draw import numba_form, torch_form
from protocol.draw.key import draw_key, key_words, prompt_digest
from protocol.draw.reference import kept
from protocol.sampling import Sampling

REVISION = "b968826d9c46dd6066d109eabc6255188de91218"
LOGITS = np.array([2.0, 1.5, 1.5, 1.0, 0.5, 0.25, 0.0, -0.5, -1.0, -1.5, 2.25, 0.75], np.float32)
SAMPLES, LENGTH = 100, 400
FILTERS = [
    Sampling(),
    Sampling(temperature=0.6),
    Sampling(temperature=2.5),
    Sampling(top_k=4),
    Sampling(top_p=0.8),
    Sampling(top_p=0.3),
    Sampling(min_p=0.2),
    Sampling(temperature=0.6, top_k=20, top_p=0.95),
    Sampling(temperature=1.7, top_k=8, top_p=0.9, min_p=0.1),
]


def columns(sampling: Sampling) -> tuple[np.ndarray, ...]:
    """Every position of every sample of one prompt: the draws of a whole order."""
    digest = prompt_digest([1, 2, 3])
    keys = [key_words(draw_key(REVISION, 11, digest, sample)) for sample in range(SAMPLES)]
    rows = SAMPLES * LENGTH
    return (
        np.repeat(np.stack(keys), LENGTH, axis=0).astype(np.int64),
        np.tile(np.arange(LENGTH), SAMPLES),
        *(np.full(rows, value) for value in
          (sampling.temperature, sampling.top_k, sampling.top_p, sampling.min_p)),
    )  # fmt: skip


def drawn_by_numba(sampling: Sampling) -> np.ndarray:
    table = np.broadcast_to(LOGITS, (SAMPLES * LENGTH, len(LOGITS)))
    return numba_form.draw_rows(table, *columns(sampling), len(LOGITS))


def goodness_of_fit(drawn: np.ndarray, sampling: Sampling) -> float:
    keep = kept(LOGITS, sampling)
    assert keep[drawn].all()
    mass = np.exp(LOGITS[keep].astype(float) / sampling.temperature)
    observed = np.bincount(drawn, minlength=len(LOGITS))[keep]
    if keep.sum() == 1:
        return 1.0
    return chisquare(observed, mass / mass.sum() * len(drawn)).pvalue


@pytest.mark.parametrize("sampling", FILTERS, ids=str)
def test_compiled_draws_fit_the_distribution(sampling: Sampling):
    assert goodness_of_fit(drawn_by_numba(sampling), sampling) > 1e-3


@pytest.mark.parametrize("sampling", [FILTERS[0], FILTERS[8]], ids=str)
def test_tensor_draws_fit_the_distribution(sampling: Sampling):
    table = torch.from_numpy(LOGITS).expand(SAMPLES * LENGTH, -1)
    tensors = [torch.from_numpy(column) for column in columns(sampling)]
    drawn = torch_form.draw_rows(table, *tensors, len(LOGITS)).numpy()
    assert goodness_of_fit(drawn, sampling) > 1e-3


def test_the_fit_notices_a_wrong_temperature():
    assert goodness_of_fit(drawn_by_numba(Sampling(temperature=0.95)), Sampling()) < 1e-3


@pytest.mark.parametrize("step", [(1, 0), (0, 1)], ids=["positions", "samples"])
def test_neighbours_are_independent(step: tuple[int, int]):
    table = drawn_by_numba(Sampling(temperature=2.5)).reshape(SAMPLES, LENGTH)
    across, along = step[1], step[0]
    first = table[: SAMPLES - across, : LENGTH - along].ravel()
    second = table[across:, along:].ravel()
    pairs = np.zeros((len(LOGITS), len(LOGITS)), dtype=int)
    np.add.at(pairs, (first, second), 1)
    assert chi2_contingency(pairs).pvalue > 1e-3
