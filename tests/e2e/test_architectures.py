"""Every supported architecture: what the miner's engine generates, the validator verifies."""

from pathlib import Path

import numpy as np
import pytest

from miner.engines.base import EngineSettings
from miner.engines.transformers_engine import TransformersEngine
from protocol.architectures import SUPPORTED_ARCHITECTURES
from protocol.messages import SampleReference, Work
from protocol.repository import ModelFacts, read_facts
from protocol.sampling import Sampling
from scripts.tiny_model.random_models import make_random
from tests.support.profiles import ASSUMED
from validator.offline import audit
from validator.transformers_forward import load

MODEL, REVISION = "reliquary/random", "a" * 40
# Shared prompts and long samples do not fit one batch.
PACK_TOKENS = 128


@pytest.fixture(scope="module", params=SUPPORTED_ARCHITECTURES)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small random model whose logits are spread as those of real models are."""
    made = tmp_path_factory.mktemp(request.param)
    sizes = {"hidden": 128, "layers": 4, "vocabulary": 2_100, "head_dim": 32}
    make_random(request.param, made, spread=0.2, **sizes)
    return made


def make_work(facts: ModelFacts, seed: int = 7) -> Work:
    """Prompts of one token, of some and of more than a chunk of linear attention, some shared."""
    random = np.random.default_rng(2)
    lengths, per_prompt = (1, 9, 150, 70), (2, 1, 5, 1)
    return Work(
        unit_id="00000000-0000-7000-8000-000000000001",
        model=MODEL,
        revision=REVISION,
        seed=seed,
        sampling=Sampling(max_tokens=64, temperature=0.9, top_p=0.98),
        vocabulary_size=facts.vocabulary_size,
        end_ids=[*facts.end_ids, *range(25)],
        prompts=[random.integers(25, 2_000, length).tolist() for length in lengths],
        samples=[
            SampleReference(prompt=prompt, sample_index=index)
            for prompt, samples in enumerate(per_prompt)
            for index in range(samples)
        ],
    )


@pytest.mark.parametrize("dtype", ["float32", pytest.param("bfloat16", marks=pytest.mark.slow)])
def test_an_honest_miner_is_verified_and_a_wrong_seed_is_void(folder: Path, dtype: str) -> None:
    facts = read_facts(folder, MODEL, REVISION)
    engine = TransformersEngine()
    settings = EngineSettings(dtype=dtype, threads=1, max_batch=6)
    engine.load(folder, MODEL, REVISION, settings)
    forward = load(folder, dtype)
    work = make_work(facts)
    samples = engine.generate(work, lambda tokens: None, lambda: False)
    # Some end early, so rows leave the engine's batch while others go on.
    assert len({len(ids) for ids in samples}) > 1
    verdicts = audit(work, samples, forward, ASSUMED, pack_tokens=PACK_TOKENS)
    assert {(verdict.outcome, verdict.reason) for verdict in verdicts} == {("verified", None)}
    if dtype == "float32":
        assert sum(verdict.mismatches for verdict in verdicts) == 0
    long = [number for number, ids in enumerate(samples) if len(ids) > 10]
    assert long
    verdicts = audit(make_work(facts, seed=8), samples, forward, ASSUMED, pack_tokens=PACK_TOKENS)
    assert {verdicts[number].outcome for number in long} == {"void"}
