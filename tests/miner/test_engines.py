"""Both engines on the tiny model in float32: real vLLM, real transformers, one truth."""

import asyncio
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from miner.engines.base import (
    ENGINE_FACTORIES,
    EngineCrashed,
    EngineError,
    EngineSettings,
    GenerationCancelled,
    UnitRefused,
    make_engine,
)
from miner.engines.process import EngineProcess
from protocol.documents import work_keys
from protocol.messages import EngineName, Work
from scoring.margin import margin

MODEL, REVISION = "reliquary/tiny-qwen3", "a" * 40
MIXED = {"temperature": 0.9, "top_k": 40, "top_p": 0.97, "min_p": 0.001}
SAMPLINGS = [{}, {"temperature": 0.6, "top_k": 20, "top_p": 0.95}, MIXED]

Generate = Callable[[Work], list[list[int]]]


class Running:
    """An engine process driven from plain tests through one event loop."""

    def __init__(self, name: EngineName, folder: Path, log: Path, settings: EngineSettings) -> None:
        self.runner = asyncio.Runner()
        self.engine = self.runner.run(
            EngineProcess.start(ENGINE_FACTORIES[name], folder, MODEL, REVISION, settings, log)
        )

    def generate(self, work: Work) -> list[list[int]]:
        return self.runner.run(self.engine.generate(work, lambda tokens: None))

    def close(self) -> None:
        self.runner.run(self.engine.close())
        self.runner.close()


def start(name: EngineName, folder: Path, tmp: pytest.TempPathFactory) -> Iterator[Running]:
    settings = EngineSettings(dtype="float32", threads=1, max_batch=64)
    running = Running(name, folder, tmp.mktemp(name) / "engine.log", settings)
    yield running
    running.close()


@pytest.fixture(scope="module")
def vllm(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    yield from start("vllm", tiny_folder, tmp_path_factory)


@pytest.fixture(scope="module")
def transformers(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    yield from start("transformers", tiny_folder, tmp_path_factory)


@pytest.fixture(scope="module")
def judge(tiny_folder: Path) -> Callable[[Work, list[list[int]]], list[float]]:
    """Return the audit's margin of every token, over plain float32 transformers logits."""
    model = AutoModelForCausalLM.from_pretrained(tiny_folder, dtype=torch.float32)

    def margins(work: Work, samples: list[list[int]]) -> list[float]:
        found: list[float] = []
        for key, sample, ids in zip(work_keys(work), work.samples, samples, strict=True):
            prompt = work.prompts[sample.prompt]
            with torch.inference_mode():
                logits = model(torch.tensor([prompt + ids])).logits[0, len(prompt) - 1 : -1]
            rows = logits[:, : work.vocabulary_size].numpy().astype(np.float64)
            found += [
                margin(row, token, key, position, work.sampling)
                for position, (row, token) in enumerate(zip(rows, ids, strict=True))
            ]
        return found

    return margins


def assert_legal(work: Work, samples: list[list[int]]) -> None:
    """Section 4 of the draw: an end id stays the last, or there are exactly max_tokens ids."""
    for ids in samples:
        ends = [position for position, token in enumerate(ids) if token in work.end_ids]
        assert ends in ([], [len(ids) - 1])
        assert ends or len(ids) == work.sampling.max_tokens


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("name", ["vllm", "transformers"])
def test_every_token_is_the_drawn_one(name, sampling, request, make_work, chat_prompts, judge):
    work = make_work(chat_prompts, 10, max_tokens=64, **sampling)
    samples = request.getfixturevalue(name).generate(work)
    assert_legal(work, samples)
    # Float32 on both sides: only a near-tie may fall otherwise.
    margins = judge(work, samples)
    assert max(margins) < 0.01
    assert sum(value > 0 for value in margins) <= 1


def test_ends_are_drawn_and_limits_are_exact(vllm, make_work, chat_prompts):
    work = make_work(chat_prompts, 40, max_tokens=24, temperature=0.6)
    samples = vllm.generate(work)
    assert_legal(work, samples)
    ended = [ids for ids in samples if ids[-1] in work.end_ids]
    assert 0 < len(ended) < len(samples)
    longer = vllm.generate(make_work(chat_prompts, 40, max_tokens=48, temperature=0.6))
    assert all(long[:24] == short for long, short in zip(longer, samples, strict=True))


def test_only_the_lease_says_what_ends_a_sample(vllm, make_work, chat_prompts):
    work = make_work(chat_prompts, 20, max_tokens=200, temperature=0.6)
    own = work.end_ids
    # The second id is none of the model's and can never be drawn.
    other = work.model_copy(update={"end_ids": [work.vocabulary_size - 1, 1_000_000]})
    samples = vllm.generate(other)
    assert_legal(other, samples)
    assert any(set(own) & set(ids[:-1]) for ids in samples)


@pytest.mark.parametrize("name", ["vllm", "transformers"])
def test_batches_of_any_size_draw_the_same(name, request, make_work, chat_prompts):
    engine = request.getfixturevalue(name)
    whole = make_work(chat_prompts, 64, max_tokens=40)
    together = engine.generate(whole)
    for size in (1, 16):
        part = whole.model_copy(update={"samples": whole.samples[:size]})
        assert engine.generate(part) == together[:size]


def test_prompts_of_one_token_and_of_many_chunks(vllm, make_work, chat_prompts, judge):
    long = (chat_prompts[0] + chat_prompts[2]) * 120
    assert len(long) > 2_500
    work = make_work([[5], long, chat_prompts[1]], 9, max_tokens=16)
    samples = vllm.generate(work)
    assert_legal(work, samples)
    assert max(judge(work, samples)) < 0.01


def test_engines_agree_up_to_a_near_tie(vllm, transformers, make_work, chat_prompts, judge):
    work = make_work(chat_prompts, 20, max_tokens=128)
    ours, theirs = vllm.generate(work), transformers.generate(work)
    for place, (left, right) in enumerate(zip(ours, theirs, strict=True)):
        pairs = zip(left, right, strict=False)
        differing = [at for at, (one, other) in enumerate(pairs) if one != other]
        if differing:
            at = differing[0]
            alone = work.model_copy(update={"samples": work.samples[place : place + 1]})
            assert judge(alone, [left[: at + 1]])[at] < 0.25
            assert judge(alone, [right[: at + 1]])[at] < 0.25
        else:
            assert left == right


def test_the_seed_changes_the_text(vllm, make_work, chat_prompts):
    first = vllm.generate(make_work(chat_prompts, 5, max_tokens=32, seed=1))
    second = vllm.generate(make_work(chat_prompts, 5, max_tokens=32, seed=2))
    assert first == vllm.generate(make_work(chat_prompts, 5, max_tokens=32, seed=1))
    assert first != second


@pytest.mark.parametrize("name", ["vllm", "transformers"])
def test_stack_tells_what_computes(name, request):
    stack = request.getfixturevalue(name).engine.stack
    assert (stack.engine, stack.dtype, stack.head_dtype) == (name, "float32", "float32")


@pytest.mark.parametrize("name", ["vllm", "transformers"])
def test_units_that_do_not_fit_are_refused_and_the_engine_lives(
    name, request, make_work, chat_prompts
):
    engine = request.getfixturevalue(name)
    with pytest.raises(UnitRefused, match="the engine holds 32768"):
        engine.generate(make_work(chat_prompts, 2, max_tokens=40_000))
    with pytest.raises(UnitRefused, match="vocabulary"):
        engine.generate(make_work([[1_000_000]], 1, max_tokens=4))
    assert len(engine.generate(make_work(chat_prompts, 2, max_tokens=4))) == 2


@pytest.mark.parametrize("name", ["vllm", "transformers"])
def test_a_cancelled_generation_ends_early(name, request, make_work, chat_prompts):
    running = request.getfixturevalue(name)
    work = make_work(chat_prompts, 64, max_tokens=30_000, temperature=4.0)
    seen: list[int] = []

    async def cancelled() -> None:
        begun = asyncio.Event()

        def note(tokens: int) -> None:
            seen.append(tokens)
            begun.set()

        generating = asyncio.create_task(running.engine.generate(work, note))
        await begun.wait()
        await running.engine.cancel()
        await generating

    with pytest.raises(GenerationCancelled):
        running.runner.run(cancelled())
    assert 0 < seen[-1] < 64 * 30_000
    short = make_work(chat_prompts, 2, max_tokens=4)
    assert len(running.generate(short)) == 2


def test_a_folder_without_a_model_is_refused(tmp_path):
    with pytest.raises(EngineError, match="transformers refuses"):
        load_here(tmp_path)


def test_weights_that_are_missing_are_never_made_up(tiny_folder, tmp_path):
    folder = shutil.copytree(tiny_folder, tmp_path / "model")
    tensors = load_file(folder / "model.safetensors")
    del tensors["model.layers.1.mlp.up_proj.weight"]
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(EngineError, match=r"lacks weights, among them model\.layers\.1\.mlp"):
        load_here(folder)


def load_here(folder: Path) -> None:
    """Load a snapshot with transformers in the test's own process, which has it imported."""
    engine = make_engine(ENGINE_FACTORIES["transformers"])
    engine.load(folder, MODEL, REVISION, EngineSettings())


async def test_an_unknown_factory_is_named(tmp_path):
    with pytest.raises(EngineError, match=r"miner\.nowhere:Engine"):
        await EngineProcess.start(
            "miner.nowhere:Engine", tmp_path, MODEL, REVISION, EngineSettings(), tmp_path / "log"
        )


def test_a_killed_engine_is_reported(transformers, make_work, chat_prompts):
    """The last test on its engine."""
    work = make_work(chat_prompts, 64, max_tokens=30_000, temperature=4.0)

    async def killed() -> None:
        generating = asyncio.create_task(transformers.engine.generate(work, lambda tokens: None))
        await asyncio.sleep(0.1)
        os.killpg(transformers.engine.pid, signal.SIGKILL)
        await generating

    with pytest.raises(EngineCrashed, match="status -9"):
        transformers.runner.run(killed())
