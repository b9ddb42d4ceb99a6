"""Where the draw runs: read-only installations, and processes without numba or torch."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HOUSE = Path(__file__).parents[2] / "protocol"
NOISE = """
import numpy as np
from protocol.draw import numba_form, numba_loops
print(len(numba_form.gumbel_of(np.zeros(4, np.uint32), 0, np.arange(3))))
print(numba_loops.gumbel_of.stats.cache_path)
"""


def run(code: str, folder: Path, **environment: str) -> list[str]:
    """Run ``code`` in a new interpreter over the houses in ``folder``; return what it prints."""
    variables = {k: v for k, v in os.environ.items() if not k.startswith(("NUMBA_", "PYTHON"))}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=variables | {"PYTHONPATH": str(folder)} | environment,
        capture_output=True,
        text=True,
        cwd=folder,
        check=True,
        timeout=300,
    )
    return done.stdout.split("\n")


def test_an_installation_that_cannot_be_written_still_compiles(tmp_path: Path):
    shutil.copytree(
        HOUSE, tmp_path / "protocol", ignore=shutil.ignore_patterns("__pycache__", "*.pyc")
    )
    # Files where numba wants folders: neither of its caches can be made, whoever runs this.
    (tmp_path / "protocol" / "draw" / "__pycache__").touch()
    count, cache, *_ = run(NOISE, tmp_path, HOME="/dev/null", XDG_CACHE_HOME="/dev/null")
    assert count == "3"
    assert cache == "None"


@pytest.mark.parametrize(
    "module", ["protocol.draw.reference", "protocol.draw.key", "scoring.margin"]
)
def test_the_readable_forms_import_neither_numba_nor_torch(module: str):
    code = f"import sys, {module}; print({{'numba', 'torch'}} & set(sys.modules))"
    assert run(code, HOUSE.parent)[0] == "set()"
