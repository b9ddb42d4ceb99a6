"""The Triton form under Triton's interpreter draws what the compiled form draws."""

import os
import subprocess
import sys
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch

from protocol.draw import device_form, numba_form, torch_form
from protocol.draw.key import key_words
from protocol.sampling import Sampling

pytestmark = pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not for this system")

PROGRAM = Path(__file__).parents[1] / "support" / "triton_program.py"
# Below and above the 4,096 ids that one program of the kernel handles; the last has padding.
SIZES = ((1, 1), (5, 8), (300, 304), (4_099, 4_100), (9_000, 9_000))
SAMPLINGS = (
    Sampling(),
    Sampling(temperature=0.6, top_k=20, top_p=0.95),
    Sampling(temperature=1.3, top_p=0.9),
    Sampling(temperature=0.8, min_p=0.05),
    Sampling(top_k=3, top_p=0.5, min_p=0.1),
    Sampling(temperature=2.0, top_p=0.1),
    Sampling(temperature=0.01, top_p=0.99),
)
ROWS = 8


def made(size: int, columns: int, sampling: Sampling) -> dict[str, np.ndarray]:
    """Rows of random logits: one of ties, one half without mass, two that are no distribution."""
    random = np.random.default_rng(size)
    logits = (3 * random.standard_normal((ROWS, columns))).astype(np.float32)
    logits[1] = np.round(logits[1])
    logits[2, : size // 2] = -np.inf
    logits[3, size - 1] = np.nan
    logits[4] = -np.inf
    keys = np.stack([key_words(sha256(b"%d" % row).digest()) for row in range(ROWS)])
    return {
        "logits": logits,
        "keys": keys.astype(np.int64),
        "positions": np.arange(ROWS),
        "temperature": np.full(ROWS, sampling.temperature),
        "top_k": np.full(ROWS, sampling.top_k),
        "top_p": np.full(ROWS, sampling.top_p),
        "min_p": np.full(ROWS, sampling.min_p),
        "size": np.array(size),
    }


CASES = [made(*sizes, sampling) for sizes in SIZES for sampling in SAMPLINGS]


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray]:
    """What the program drew for every case, by its number."""
    folder = tmp_path_factory.mktemp("triton")
    arrays = {f"{n}/{name}": value for n, case in enumerate(CASES) for name, value in case.items()}
    np.savez(folder / "cases.npz", **arrays)
    run("draw", str(folder / "cases.npz"), str(folder / "drawn.npz"), TRITON_INTERPRET="1")
    with np.load(folder / "drawn.npz") as found:
        return dict(found)


def run(*arguments: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, str(PROGRAM), *arguments],
        env=os.environ | environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    return done.stdout


@pytest.mark.parametrize("number", range(len(CASES)))
def test_ids_are_those_of_the_compiled_form(number: int, drawn: dict[str, np.ndarray]) -> None:
    case = CASES[number]
    columns = [case[name] for name in ("positions", "temperature", "top_k", "top_p", "min_p")]
    due = numba_form.draw_rows(case["logits"], case["keys"], *columns, int(case["size"]))
    np.testing.assert_array_equal(drawn[str(number)], due)
    assert due[4] == -1


def test_where_no_kernel_starts_the_draw_is_in_torch() -> None:
    # Here it is the device that Triton does not serve; elsewhere a compiler may be missing.
    with pytest.warns(UserWarning, match="in torch, not in Triton"):
        assert device_form._on(torch.device("cpu")) is torch_form


def test_the_kernels_compile_for_gpus_that_are_not_here(tmp_path: Path) -> None:
    lines = run("compile", TRITON_CACHE_DIR=str(tmp_path)).split("\n")
    assert lines[:4] == ["_best 80", "_best 90", "_mass 80", "_mass 90"]
