"""Ten strangers and three validators over some epochs: the demo itself, as a user starts it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_cheats_end_at_zero_and_validators_agree(tmp_path: Path):
    command = [sys.executable, "-P", "-m", "scripts.showcase", "--network", "--epochs", "5"]
    done = subprocess.run([*command, "--out", str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4_000:] + done.stderr[-2_000:]
    assert "NO " not in done.stdout
    found = json.loads((tmp_path / "network.json").read_text())
    last = found["epochs"][-1]
    first, *others = last["rows"].values()
    assert others == [first, first]
    weighted = {one["name"] for one in found["miners"] if one["hotkey"] in first}
    assert weighted == {f"miner-{number}" for number in range(1, 6)}
    assert (tmp_path / "network.png").read_bytes().startswith(b"\x89PNG")
