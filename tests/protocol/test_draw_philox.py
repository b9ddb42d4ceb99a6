"""Philox and the noise: published known answers, the vectors of the draw, and the distribution."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kstest

from protocol.draw import numba_form, numba_loops, torch_form
from protocol.draw.key import key_words
from protocol.draw.noise import gumbel, gumbel_of_words, noise_words
from protocol.draw.philox import philox4x32

VECTORS = json.loads((Path(__file__).parent / "forced-draw.vectors.json").read_text())
# Random123's kat_vectors for philox4x32 with 10 rounds: counter, key, words.
KNOWN_ANSWERS = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000",
     "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff",
     "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0",
     "d16cfe09 94fdcceb 5001e420 24126ea1"),
]  # fmt: skip


def words(text: str) -> np.ndarray:
    return np.array([int(word, 16) for word in text.split()], dtype=np.uint32)


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN_ANSWERS)
def test_philox_gives_the_published_words(counter: str, key: str, expected: str):
    assert philox4x32(words(counter), words(key)).tolist() == words(expected).tolist()


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN_ANSWERS)
def test_compiled_philox_gives_the_published_words(counter: str, key: str, expected: str):
    x0, x1, x2, x3 = (np.uint64(word) for word in words(counter))
    k0, k1 = (np.uint64(word) for word in words(key))
    found = numba_loops._philox(x0, x1, k0, k1, x2, x3)
    assert [word & 0xFFFFFFFF for word in found] == words(expected).tolist()


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN_ANSWERS)
def test_torch_philox_gives_the_published_words(counter: str, key: str, expected: str):
    x0, x1, x2, x3 = (int(word) for word in words(counter))
    k0, k1 = (int(word) for word in words(key))
    found = torch_form._philox(
        torch.tensor([[k0, k1, x2, x3]]), torch.tensor([x1]), torch.tensor([[x0]])
    )
    assert [int(word) for word in found] == words(expected).tolist()


@pytest.mark.parametrize(("word", "expected"), VECTORS["noise_of_word"])
def test_noise_of_a_word(word: int, expected: float):
    assert gumbel_of_words(np.array([word], dtype=np.uint32))[0] == pytest.approx(
        expected, abs=1e-9
    )
    assert numba_loops._gumbel(np.uint32(word)) == pytest.approx(expected, abs=1e-9)
    assert torch_form._gumbel_of_words(torch.tensor(word)).item() == pytest.approx(
        expected, abs=1e-9
    )


@pytest.mark.parametrize("vector", VECTORS["noise"])
def test_noise_of_ids(vector: dict):
    key, position = bytes.fromhex(vector["key"]), vector["position"]
    ids = np.array([int(token) for token in vector["g"]])
    expected = list(vector["g"].values())
    assert gumbel(key, position, ids) == pytest.approx(expected, abs=1e-9)
    assert numba_form.gumbel_of(key_words(key), position, ids) == pytest.approx(expected, abs=1e-9)
    keys = torch.from_numpy(key_words(key).astype(np.int64))[None]
    found = torch_form.gumbel(keys, torch.tensor([position]), torch.from_numpy(ids)[None])[0]
    assert found.tolist() == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("position", [-1, 2**32])
def test_a_position_past_32_bits_is_refused(position: int):
    with pytest.raises(ValueError, match="position must lie in"):
        noise_words(bytes(32), position, np.arange(3))


def test_noise_is_standard_gumbel():
    noise = np.concatenate([gumbel(bytes([7]) * 32, t, np.arange(5_000)) for t in range(20)])
    assert kstest(noise, "gumbel_r").pvalue > 1e-3


@given(key=st.binary(min_size=32, max_size=32), position=st.integers(0, 2**32 - 1))
def test_noise_depends_on_half_of_the_key_and_nothing_past_it(key: bytes, position: int):
    ids = np.arange(9)
    assert (
        noise_words(key, position, ids) == noise_words(key[:16] + bytes(16), position, ids)
    ).all()
    for byte in range(16):
        flipped = bytearray(key)
        flipped[byte] ^= 1
        changed = noise_words(bytes(flipped), position, ids) != noise_words(key, position, ids)
        assert changed.any()


@given(
    word=st.one_of(st.integers(0, 2**32 - 1), st.sampled_from([0, 1, 2, 2**32 - 2, 2**32 - 1])),
    logit=st.floats(-1e4, 1e4, width=32),
    below=st.floats(0, 1e3),
    gap=st.floats(-1e-3, 30),
    temperature=st.one_of(st.sampled_from([1e-12, 1e-6, 0.6, 1.0, 4.0]), st.floats(1e-9, 4)),
)
def test_no_word_past_the_limit_reaches_the_best(
    word: int, logit: float, below: float, gap: float, temperature: float
):
    score = logit + temperature * gumbel_of_words(np.array([word], dtype=np.uint32))[0]
    best = score - abs(gap) * temperature * (gap > 0)
    limit = numba_loops._word_limit(logit + below, best, temperature)
    assert word <= limit


def test_the_limit_excludes_what_cannot_win():
    assert numba_loops._word_limit(0.0, 30.0, 1.0) == -1
    assert numba_loops._word_limit(0.0, 10.0, 1.0) == pytest.approx(2**32 * np.exp(-10), rel=1e-5)
    assert numba_loops._word_limit(1.0, 0.0, 1.0) == 2**32 - 1
