"""The tensor forms of the draw on a CUDA device give the compiled form's ids."""

from hashlib import sha256
from types import ModuleType

import numpy as np
import pytest
import torch

from protocol.draw import device_form, numba_form, torch_form
from protocol.draw.key import key_words
from protocol.sampling import Sampling

VOCABULARY, ROWS = 151_936, 16


@pytest.mark.gpu
@pytest.mark.parametrize("form", [torch_form, device_form])
@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(),
        Sampling(temperature=0.6, top_k=20, top_p=0.95),
        Sampling(temperature=1.3, top_p=0.9),
        Sampling(temperature=0.8, min_p=0.05),
    ],
    ids=["unfiltered", "top_k and top_p", "top_p", "min_p"],
)
def test_a_gpu_draws_what_the_cpu_draws(form: ModuleType, sampling: Sampling) -> None:
    generator = np.random.default_rng(7)
    logits = (3 * generator.standard_normal((ROWS, VOCABULARY))).astype(np.float32)
    logits[:, :40] += 8
    keys = np.stack([key_words(sha256(b"%d" % row).digest()) for row in range(ROWS)])
    columns = (
        np.arange(ROWS),
        np.full(ROWS, sampling.temperature),
        np.full(ROWS, sampling.top_k),
        np.full(ROWS, sampling.top_p),
        np.full(ROWS, sampling.min_p),
    )
    due = numba_form.draw_rows(logits, keys, *columns, VOCABULARY)
    tensors = [
        torch.from_numpy(column).cuda() for column in (logits, keys.astype(np.int64), *columns)
    ]
    drawn = form.draw_rows(*tensors, VOCABULARY).cpu().numpy()
    np.testing.assert_array_equal(drawn, due)
