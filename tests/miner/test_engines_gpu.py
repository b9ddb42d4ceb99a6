"""vLLM on a GPU, under either of its runners: the draw is live, and an audit finds nothing."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

from scripts.tiny_model import WEIGHTS

# One runner a process: vLLM chooses when it is imported. Loading checks that the draw is live.
PROGRAM = """
import json, sys
from pathlib import Path
from miner.engines.base import EngineSettings, make_engine, ENGINE_FACTORIES
from protocol.repository import read_facts
from scoring.published import chosen
from scripts.calibrate.orders import orders
from validator.offline import audit
from validator.transformers_forward import load

folder = Path(sys.argv[1])
facts = read_facts(folder, "reliquary/tiny-qwen3", "0" * 40)
engine = make_engine(ENGINE_FACTORIES["vllm"])
engine.load(folder, facts.model, facts.revision, EngineSettings(dtype="bfloat16", memory_gib=2))
work = next(iter(orders(folder, facts, max_tokens=128, seed=3))).work
samples = engine.generate(work, lambda tokens: None, lambda: False)
forward = load(folder, "bfloat16")
profile = chosen(work.model, engine.stack(), forward.stack())
verdicts = audit(work, samples, forward, profile)
print(json.dumps([engine.stack().kernels, [verdict.outcome for verdict in verdicts]]))
"""


@pytest.mark.gpu
@pytest.mark.skipif(find_spec("vllm") is None, reason="vLLM is not installed")
@pytest.mark.parametrize("second_runner", ["0", "1"])
def test_honest_samples_of_a_gpu_pass(second_runner: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(WEIGHTS)],
        env=os.environ | {"VLLM_USE_V2_MODEL_RUNNER": second_runner},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    kernels, outcomes = json.loads(done.stdout.splitlines()[-1])
    assert "torch" in kernels
    assert set(outcomes) == {"verified"}
