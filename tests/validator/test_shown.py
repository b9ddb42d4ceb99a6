"""What rows show is the same wherever it is computed."""

from hashlib import sha256

import numpy as np
import pytest
import torch

from protocol.draw.key import key_words
from protocol.sampling import Sampling
from validator.shown import drawn_on_device, shown

ROWS, VOCABULARY = 24, 700
SAMPLINGS = [
    Sampling(),
    Sampling(temperature=0.6, top_k=20, top_p=0.95),
    Sampling(temperature=1.3, min_p=0.02),
]


def case() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Logits with four columns of padding, draw keys and positions."""
    random = np.random.default_rng(5)
    logits = (2 * random.standard_normal((ROWS, VOCABULARY + 4))).astype(np.float32)
    logits[3, 7] = np.nan
    keys = np.stack([key_words(sha256(b"%d" % row).digest()) for row in range(ROWS)])
    return logits, keys, np.arange(ROWS, dtype=np.uint32)


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_tensor_forms_draw_the_same_ids(sampling: Sampling) -> None:
    logits, keys, positions = case()
    drawn = drawn_on_device(torch.from_numpy(logits), keys, positions, sampling, VOCABULARY)
    there = shown(torch.from_numpy(logits), np.abs(drawn), keys, positions, sampling, VOCABULARY)
    np.testing.assert_array_equal(drawn, there.drawn)
    assert drawn[3] == -1
    assert np.isnan(there.margins[3])
    assert not np.delete(there.margins, 3).any()
    assert not there.entropies.any()


@pytest.mark.gpu
@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_a_gpu_shows_what_the_cpu_shows(sampling: Sampling) -> None:
    logits, keys, positions = case()
    claimed = np.argmax(np.nan_to_num(logits[:, :VOCABULARY], nan=-9), axis=1)
    here, there = (
        shown(torch.from_numpy(logits).to(device), claimed, keys, positions, sampling, VOCABULARY)
        for device in ("cpu", "cuda")
    )
    np.testing.assert_array_equal(here.drawn, there.drawn)
    np.testing.assert_array_equal(here.margins, there.margins)
    np.testing.assert_array_equal(here.entropies, there.entropies)
