"""The compiled and the tensor form of the draw are equal to the readable one."""

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from torch.utils._python_dispatch import TorchDispatchMode

from protocol.draw import numba_form, numba_loops, reference, torch_form
from protocol.draw.key import key_words
from protocol.sampling import Sampling

TEMPERATURES = [1e-6, 1e-3, 0.1, 0.6, 1.0, 1.7, 4.0]

samplings = st.builds(
    Sampling,
    temperature=st.sampled_from(TEMPERATURES),
    top_k=st.one_of(st.just(0), st.integers(1, 60), st.just(2**31 - 1)),
    top_p=st.one_of(st.just(1.0), st.floats(0.001, 1), st.sampled_from([0.05, 0.5, 0.95])),
    min_p=st.one_of(st.just(0.0), st.floats(0, 0.99)),
)
# Coarse values make ties, inside the distribution and at the filters' edges.
elements = st.one_of(
    st.floats(-40, 40, width=32), st.integers(-3, 3).map(float), st.just(-math.inf)
)
rows = arrays(np.float32, st.integers(1, 600), elements=elements, fill=st.just(0.5)).filter(
    lambda row: row.max() > -math.inf
)
keys = st.binary(min_size=32, max_size=32)
positions = st.one_of(st.integers(0, 200), st.integers(0, 2**32 - 1))


def arguments(samplings: list[Sampling], keys: list[bytes], positions: list[int]) -> tuple:
    return (
        np.stack([key_words(key) for key in keys]),
        np.array(positions),
        np.array([sampling.temperature for sampling in samplings]),
        np.array([sampling.top_k for sampling in samplings]),
        np.array([sampling.top_p for sampling in samplings]),
        np.array([sampling.min_p for sampling in samplings]),
    )


def both_forms(logits: np.ndarray, columns: tuple, size: int) -> tuple[np.ndarray, np.ndarray]:
    compiled = numba_form.draw_rows(logits, *columns, size)
    tensors = [torch.from_numpy(column.astype(np.int64) if column.dtype == np.uint32 else column)
               for column in columns]  # fmt: skip
    return compiled, torch_form.draw_rows(torch.from_numpy(logits), *tensors, size).numpy()


def assert_due(
    found: int, logits: np.ndarray, key: bytes, position: int, sampling: Sampling
) -> None:
    """Assert that ``found`` is the reference's id, or ties with it up to the last bits."""
    expected = reference.draw(logits, key, position, sampling)
    if found == expected:
        return
    scores = reference.scores(logits, key, position, sampling.temperature)
    tied = abs(scores[found] - scores[expected]) <= 1e-13 * max(1.0, abs(scores[expected]))
    assert tied and reference.kept(logits, sampling)[found]


@given(logits=rows, key=keys, position=positions, sampling=samplings, padding=st.integers(0, 5))
def test_one_row(logits: np.ndarray, key: bytes, position: int, sampling: Sampling, padding: int):
    padded = np.concatenate([logits, np.full(padding, 99, dtype=np.float32)])[None]
    for found in both_forms(padded, arguments([sampling], [key], [position]), len(logits)):
        assert_due(int(found[0]), logits, key, position, sampling)


@settings(max_examples=12)
@given(
    seed=st.integers(0, 2**32 - 1),
    size=st.sampled_from([1, 255, 256, 257, 4_096, 50_257, 151_936]),
    spread=st.sampled_from([0.01, 1.0, 3.0, 10.0]),
    rounded=st.booleans(),
    mixed=st.lists(samplings, min_size=3, max_size=3),
)
def test_batches_of_mixed_rows_up_to_whole_vocabularies(
    seed: int, size: int, spread: float, rounded: bool, mixed: list[Sampling]
):
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, spread, (3, size + 3)).astype(np.float32)
    logits = np.round(logits * 4) / 4 if rounded else logits
    row_keys = [rng.bytes(32) for _ in range(3)]
    places = rng.integers(0, 2**17, 3).tolist()
    for found in both_forms(logits, arguments(mixed, row_keys, places), size):
        for row in range(3):
            assert_due(int(found[row]), logits[row, :size], row_keys[row], places[row], mixed[row])


@pytest.mark.parametrize("filters", [{}, {"top_k": 5}, {"top_p": 0.3}, {"min_p": 0.5}])
def test_equal_logits_over_many_blocks(filters: dict):
    sampling, key = Sampling(**filters), bytes(range(32))
    logits = np.zeros((1, 5_000), dtype=np.float32)
    for found in both_forms(logits, arguments([sampling], [key], [3]), 5_000):
        assert found[0] == reference.draw(logits[0], key, 3, sampling)


def test_the_lower_id_wins_a_tie_across_blocks():
    logits = np.full((1, 2_000), -5, dtype=np.float32)
    logits[0, [300, 1_500]] = 7
    for found in both_forms(
        logits, arguments([Sampling(temperature=1e-30)], [bytes(32)], [0]), 2_000
    ):
        assert found[0] == 300


@pytest.mark.parametrize("bad", [math.nan, -math.nan, math.inf])
@pytest.mark.parametrize("filters", [{}, {"top_k": 5, "top_p": 0.5}])
def test_a_row_that_is_no_distribution_has_no_draw(bad: float, filters: dict):
    logits = np.zeros((3, 700), dtype=np.float32)
    logits[1, 699] = bad
    logits[2] = -math.inf
    sampling = Sampling(**filters)
    for found in both_forms(logits, arguments([sampling] * 3, [bytes(32)] * 3, [0, 1, 2]), 700):
        assert found[1:].tolist() == [-1, -1]
        assert found[0] == reference.draw(logits[0], bytes(32), 0, sampling)


def test_a_bad_value_in_the_padding_does_not_matter():
    logits = np.zeros((1, 300), dtype=np.float32)
    logits[0, 299] = math.nan
    for found in both_forms(logits, arguments([Sampling()], [bytes(32)], [0]), 299):
        assert found[0] == reference.draw(logits[0, :299], bytes(32), 0, Sampling())


def test_no_rows_draw_nothing():
    columns = (np.zeros((0, 4), np.uint32), *(np.zeros(0) for _ in range(5)))
    for found in both_forms(np.zeros((0, 8), dtype=np.float32), columns, 8):
        assert found.shape == (0,)


def test_threads_may_draw_at_once():
    rng = np.random.default_rng(5)
    logits = rng.normal(0, 3, (8, 3_000)).astype(np.float32)
    sampled = [Sampling(top_p=0.8), Sampling(), Sampling(top_k=3), Sampling(min_p=0.1)] * 2
    columns = arguments(sampled, [rng.bytes(32) for _ in range(8)], list(range(8)))
    whole = numba_form.draw_rows(logits, *columns, 3_000)

    def half(rows: slice) -> np.ndarray:
        return numba_form.draw_rows(logits[rows], *(column[rows] for column in columns), 3_000)

    with ThreadPoolExecutor(4) as executor:
        halves = list(executor.map(half, [slice(0, 4), slice(4, 8)] * 10))
    for first, second in zip(halves[::2], halves[1::2], strict=True):
        assert np.concatenate([first, second]).tolist() == whole.tolist()


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({0: np.zeros((2, 8))}, TypeError, "float32"),
        ({0: np.zeros(8, np.float32)}, ValueError, "rows of 8 ids"),
        ({7: 9}, ValueError, "rows of 9 ids"),
        ({7: 0}, ValueError, "rows of 0 ids"),
        ({1: np.zeros((2, 2), np.uint32)}, ValueError, "keys"),
        ({4: np.zeros(3)}, ValueError, "top_k|parameters"),
    ],
)
def test_arguments_that_do_not_fit_are_named(change: dict, error: type, message: str):
    given_arguments: list = [
        np.zeros((2, 8), dtype=np.float32), *arguments([Sampling()] * 2, [bytes(32)] * 2, [0, 1]), 8
    ]  # fmt: skip
    for place, value in change.items():
        given_arguments[place] = value
    with pytest.raises(error, match=message):
        numba_form.draw_rows(*given_arguments)
    tensors = [
        torch.from_numpy(value.astype(np.int64) if value.dtype == np.uint32 else value)
        if isinstance(value, np.ndarray) else value
        for value in given_arguments
    ]  # fmt: skip
    with pytest.raises(error, match=message):
        torch_form.draw_rows(*tensors)


def test_temperature_zero_is_refused():
    columns = arguments([Sampling()], [bytes(32)], [0])
    with pytest.raises(ValueError, match="temperature must be above 0"):
        numba_form.draw_rows(
            np.zeros((1, 8), np.float32), *columns[:2], np.zeros(1), *columns[3:], 8
        )


@given(
    row=arrays(np.float32, st.integers(1, 900), elements=elements, fill=st.just(0.5)),
    share=st.floats(0, 1),
)
def test_kth_largest(row: np.ndarray, share: float):
    k = 1 + int(share * (len(row) - 1))
    assert numba_form.kth_largest(row, k) == np.sort(row)[len(row) - k]


@given(exponents=arrays(np.float64, 256, elements=st.floats(-800, 0)))
def test_plain_arithmetic_exponentials(exponents: np.ndarray):
    sums = np.zeros(256)
    numba_loops.add_exponentials(exponents.copy(), np.empty(256), sums)
    assert sums == pytest.approx(np.exp(np.maximum(exponents, -700)), rel=1e-15)


class _Largest(TorchDispatchMode):
    """Notes how many logits ``topk`` writes down at a time."""

    numbers = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        found = func(*args, **(kwargs or {}))
        if func.overloadpacket is torch.ops.aten.topk:
            self.numbers = max(self.numbers, found[0].numel())
        return found


def test_a_large_top_k_takes_no_more_memory(monkeypatch):
    monkeypatch.setattr(torch_form, "ELEMENTS", 1_000)
    random = np.random.default_rng(3)
    logits = torch.from_numpy(random.standard_normal((40, 300)).astype(np.float32))
    top_k = torch.tensor([0, 1, 20, 290, 400] * 8)
    ones = torch.ones(40, dtype=torch.float64)
    with _Largest() as largest:
        floor = torch_form.floors(logits, ones, ones, top_k, 0 * ones)
    assert 0 < largest.numbers <= 1_000
    falling = -np.sort(-logits.numpy(), axis=1)
    due = [falling[row, k - 1] if 0 < k < 300 else -np.inf for row, k in enumerate(top_k)]
    np.testing.assert_array_equal(floor.numpy(), due)
