"""The cheat bench at its quickest: real engines cheat, and the evidence finds them."""

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

# Text of the tiny model at both samplings; the aims of the full bench are in docs/audit.md.
MOST_TOKENS = {"wrong seed": 60, "20 % of tokens redrawn": 400}


@pytest.mark.parametrize("engine", ["transformers", pytest.param("vllm", marks=pytest.mark.slow)])
def test_cheats_are_found_and_honest_samples_are_not(engine: str, tmp_path: Path) -> None:
    command = [sys.executable, "-P", "-m", "scripts.bench.power", "--quick", "--engine", engine]
    done = subprocess.run([*command, "--out", str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2_000:]
    figures = sorted(tmp_path.glob("*.json"))
    assert len(figures) == len(list(tmp_path.glob("*.png"))) == 2
    for path in figures:
        found = json.loads(path.read_text())
        assert found["honest"]["void"] == 0
        assert math.isinf(found["honest"]["needed"]["10000.0"]["median"])
        for cheat, most in MOST_TOKENS.items():
            assert found[cheat]["needed"]["1000000.0"]["median"] <= most, cheat
