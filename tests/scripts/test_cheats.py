"""Each cheat falsifies what it says and nothing else. The engine under it is a fake that answers
with fixed ids and remembers what it was asked; the real engines meet the cheats in tests/e2e."""

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from miner.engines.base import EngineError, EngineSettings, GenerationCancelled, make_engine
from protocol.messages import SampleReference, Stack, Work
from protocol.sampling import Sampling
from scripts.cheats.base import Cheat
from scripts.cheats.caches import EightBitCache
from scripts.cheats.draws import IgnoreFilters, OwnRandomNumbers, SuppressEnd, Temperature
from scripts.cheats.edits import CopyAnswers, EarlyEnd, EditTokens
from scripts.cheats.habits import Slow, Turncoat
from scripts.cheats.kinds import KINDS, NODE_KINDS, UnknownKind, check_kind, describe, factory_path
from scripts.cheats.weights import FourBitWeights

END = 90
WORK = Work(
    unit_id="01234567-89ab-7def-8123-456789abcdef",
    model="reliquary/tiny-qwen3",
    revision="a" * 40,
    seed=7,
    sampling=Sampling(temperature=0.8, top_p=0.9, top_k=20, min_p=0.01, max_tokens=64),
    vocabulary_size=100,
    end_ids=[END, 95],
    prompts=[[1, 2, 3]],
    samples=[SampleReference(prompt=0, sample_index=0), SampleReference(prompt=0, sample_index=1)],
)
ANSWERS = [[*range(10, 50), END], list(range(20, 84))]


class FakeEngine:
    """Answers with fixed ids; generates nothing."""

    def __init__(self) -> None:
        self.asked: Work | None = None
        self.folder: Path | None = None
        self.files: dict[str, bytes] = {}

    def load(self, folder: Path, model: str, revision: str, settings: EngineSettings) -> None:
        self.folder = folder
        self.files = {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}

    def stack(self) -> Stack:
        return Stack(
            engine="vllm", version="0", dtype="float32", head_dtype="float32", device="cpu"
        )

    def generate(self, work: Work, progress: object, cancelled: object) -> list[list[int]]:
        self.asked = work
        return [list(ids) for ids in ANSWERS[-len(work.samples) :]]

    def close(self) -> None:
        pass


def cheat_with(kind: type[Cheat]) -> tuple[Work, list[list[int]]]:
    engine = FakeEngine()
    claimed = kind(engine).generate(WORK, lambda tokens: None, lambda: False)
    assert engine.asked is not None
    return engine.asked, claimed


def test_own_random_numbers_changes_the_seed_alone():
    asked, claimed = cheat_with(OwnRandomNumbers)
    assert asked.seed != WORK.seed
    assert asked.model_copy(update={"seed": WORK.seed}) == WORK
    assert claimed == ANSWERS


def test_temperature_lowers_the_temperature_alone():
    asked, claimed = cheat_with(Temperature)
    assert 0 < asked.sampling.temperature < WORK.sampling.temperature
    assert asked.sampling.model_copy(update={"temperature": 0.8}) == WORK.sampling
    assert claimed == ANSWERS


def test_ignore_filters_keeps_temperature_and_length():
    asked, claimed = cheat_with(IgnoreFilters)
    assert asked.sampling == Sampling(temperature=0.8, max_tokens=64)
    assert claimed == ANSWERS


def test_suppress_end_leaves_every_end_id_out():
    asked, _ = cheat_with(SuppressEnd)
    assert all(end >= asked.vocabulary_size for end in WORK.end_ids)


def test_edit_tokens_replaces_few_and_keeps_the_length():
    _, claimed = cheat_with(EditTokens)
    for honest, edited in zip(ANSWERS, claimed, strict=True):
        assert len(edited) == len(honest)
        changed = [new for old, new in zip(honest, edited, strict=True) if old != new]
        assert len(changed) == 1 + len(honest) // 20
        assert not {END, 95} & set(changed)
        assert all(0 <= token < WORK.vocabulary_size for token in edited)


def test_early_end_halves_every_sample_and_ends_it():
    _, claimed = cheat_with(EarlyEnd)
    for honest, cut in zip(ANSWERS, claimed, strict=True):
        assert cut == [*honest[: len(honest) // 2], END]


def test_copied_answers_are_generated_once_a_prompt():
    prompts = [[1], [2]]
    samples = [SampleReference(prompt=i // 3, sample_index=i % 3) for i in range(6)]
    work = WORK.model_copy(update={"prompts": prompts, "samples": samples})
    engine = FakeEngine()
    claimed = CopyAnswers(engine).generate(work, lambda tokens: None, lambda: False)
    assert engine.asked is not None
    assert engine.asked.samples == [samples[0], samples[3]]
    assert claimed == [ANSWERS[0]] * 3 + [ANSWERS[1]] * 3


def test_a_turncoat_is_honest_until_it_edits_a_sample():
    engine = FakeEngine()
    cheat = Turncoat(engine)
    for _ in range(Turncoat.honest_units):
        assert cheat.generate(WORK, lambda tokens: None, lambda: False) == ANSWERS
    first, last = cheat.generate(WORK, lambda tokens: None, lambda: False)
    assert engine.asked == WORK
    assert first == ANSWERS[0]
    assert last != ANSWERS[1]
    assert len(last) == len(ANSWERS[1])


def test_the_slow_one_is_honest_and_can_be_stopped(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Slow, "seconds", 0.0)
    engine = FakeEngine()
    assert Slow(engine).generate(WORK, lambda tokens: None, lambda: False) == ANSWERS
    assert engine.asked == WORK
    monkeypatch.setattr(Slow, "seconds", 3_600.0)
    with pytest.raises(GenerationCancelled):
        Slow(engine).generate(WORK, lambda tokens: None, lambda: True)


def test_four_bit_weights_rounds_matrices_and_copies_the_rest(tmp_path: Path):
    matrix = np.random.default_rng(0).standard_normal((4, 64)).astype(np.float32)
    norm = np.linspace(0.5, 1.5, 64, dtype=np.float32)
    save_file({"head": matrix, "norm": norm}, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text("{}")
    engine = FakeEngine()
    cheat = FourBitWeights(engine)
    cheat.load(tmp_path, WORK.model, WORK.revision, EngineSettings())
    assert engine.folder is not None
    rounded = load_file(engine.folder / "model.safetensors")
    assert all(len(np.unique(row)) <= 15 for row in rounded["head"])
    assert np.abs(rounded["head"] - matrix).max() <= np.abs(matrix).max() / 14 + 1e-6
    assert (rounded["norm"] == norm).all()
    assert engine.files["config.json"] == b"{}"
    cheat.close()
    assert not engine.folder.exists()


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_made_by_its_path(kind: str):
    engine = make_engine(factory_path("transformers", kind))
    assert type(engine) is KINDS[kind].cheat


def test_only_the_slow_one_is_honest():
    assert [name for name, kind in KINDS.items() if kind.honest] == ["slow"]


@pytest.mark.parametrize("kind", [*KINDS, *NODE_KINDS])
def test_every_kind_is_known_and_described(kind: str):
    check_kind(kind)
    assert describe(kind)


def test_an_unknown_kind_is_refused_with_the_list():
    with pytest.raises(UnknownKind, match=r"'lazy'; the kinds are own-random-numbers, "):
        factory_path("vllm", "lazy")
    with pytest.raises(EngineError, match="vllm/lazy"):
        make_engine("scripts.cheats.kinds:vllm/lazy")


def test_an_eight_bit_cache_rounds_keys_and_values_alone():
    from transformers.cache_utils import DynamicLayer

    class Transformers(FakeEngine):
        def stack(self) -> Stack:
            return super().stack().model_copy(update={"engine": "transformers"})

    cheat = EightBitCache(Transformers())
    keys, values = torch.full((1, 1, 2, 2), 1.03), torch.full((1, 1, 2, 2), -900.0)
    cheat.load(Path("tests"), "reliquary/tiny-qwen3", "a" * 40, EngineSettings())
    kept = DynamicLayer().update(keys, values)
    cheat.close()
    # e4m3 has eighths between 1 and 2, and ends at 448.
    assert [float(one.unique()) for one in kept] == [1.0, -448.0]
    assert float(DynamicLayer().update(keys, values)[0].unique()) == float(keys.unique())
