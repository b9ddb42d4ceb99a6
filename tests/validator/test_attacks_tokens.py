"""Attacks on the tokens themselves: real generations of the tiny model, falsified and audited.

One honest engine and one forward serve all of it, in float32, where an honest sample shows no
margin. How many tokens a cheat takes in other types is measured by ``reliquary bench power``.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from miner.engines.base import ENGINE_FACTORIES, Engine, EngineSettings, make_engine
from protocol.messages import SampleReference, SampleVerdict, Work
from protocol.repository import read_facts
from protocol.sampling import Sampling
from scripts.cheats.kinds import KINDS
from scripts.tiny_model import WEIGHTS
from tests.support.profiles import EXACT
from validator.offline import audit
from validator.transformers_forward import TransformersForward, load

MODEL, REVISION = "reliquary/tiny-qwen3", "a" * 40
# Of a tale every token is a choice; a known answer leaves none, to nobody.
QUESTIONS = (
    "Tell me a short tale about a fox and a well.",
    "Tell me a short tale about a king and a cat.",
)
ENDING = ("What is the capital of France?",)
FILTERED = {"temperature": 0.9, "top_p": 0.8, "top_k": 20, "min_p": 0.02}


@pytest.fixture(scope="module")
def honest() -> Iterator[Engine]:
    yield from started(WEIGHTS)


def started(folder: Path, kind: str | None = None) -> Iterator[Engine]:
    engine = make_engine(ENGINE_FACTORIES["transformers"])
    engine = engine if kind is None else KINDS[kind].cheat(engine)
    engine.load(folder, MODEL, REVISION, EngineSettings(dtype="float32", threads=1, max_batch=64))
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def forward() -> TransformersForward:
    return load(WEIGHTS, "float32")


def encoded(text: str) -> list[int]:
    tokenizer = Tokenizer.from_file(str(WEIGHTS / "tokenizer.json"))
    chat = f"<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n"
    return tokenizer.encode(chat, add_special_tokens=False).ids


def make_work(
    samples: int = 3, questions: tuple[str, ...] = QUESTIONS, seed: int = 7, **sampling: object
) -> Work:
    facts = read_facts(WEIGHTS, MODEL, REVISION)
    return Work(
        unit_id="00000000-0000-7000-8000-000000000001",
        model=MODEL,
        revision=REVISION,
        seed=seed,
        sampling=Sampling.model_validate({"max_tokens": 64, **sampling}),
        vocabulary_size=facts.vocabulary_size,
        end_ids=list(facts.end_ids),
        prompts=[encoded(question) for question in questions],
        samples=[
            SampleReference(prompt=prompt, sample_index=index)
            for prompt in range(len(questions))
            for index in range(samples)
        ],
    )


def generated(engine: Engine, work: Work) -> list[list[int]]:
    return engine.generate(work, lambda tokens: None, lambda: False)


def judged(forward: TransformersForward, work: Work, samples: list[list[int]]):
    return audit(work, samples, forward, EXACT)


def passed(verdicts: list[SampleVerdict]) -> list[bool]:
    assert all(verdict.outcome != "inconclusive" for verdict in verdicts)
    return [verdict.outcome == "verified" for verdict in verdicts]


@pytest.mark.parametrize("change", ["template", "few-shot", "no system"])
def test_a2_another_prompt(honest: Engine, forward: TransformersForward, change: str) -> None:
    work = make_work()
    ids = {
        "template": [prompt[1:] for prompt in work.prompts],
        "few-shot": [[*encoded("Say yes."), *prompt] for prompt in work.prompts],
        "no system": [prompt[:-2] for prompt in work.prompts],
    }[change]
    verdicts = judged(forward, work, generated(honest, work.model_copy(update={"prompts": ids})))
    assert not any(passed(verdicts))
    assert all((verdict.position or 0) < 40 for verdict in verdicts)


def test_a5_ends_suppressed(honest: Engine, forward: TransformersForward) -> None:
    """In place of its end every answer goes on, with the words of a tale, up to the limit."""
    work = make_work(samples=4, questions=ENDING)
    truth = generated(honest, work)
    tale = generated(honest, make_work(samples=1, seed=9, max_tokens=128))[0]
    more = [token for token in tale if token not in work.end_ids]
    cheat = [[*ids[:-1], *more][:64] for ids in truth]
    assert all(ids[-1] in work.end_ids for ids in truth)
    assert all(len(ids) == 64 for ids in cheat)
    verdicts = judged(forward, work, cheat)
    assert not any(passed(verdicts))
    # The first mark is where the end was due.
    assert [v.marks[0][0] for v in verdicts] == [len(ids) - 1 for ids in truth]


def test_a6_an_end_put_in(honest: Engine, forward: TransformersForward) -> None:
    work = make_work()
    cheat = generated(KINDS["early-end"].cheat(honest), work)
    verdicts = judged(forward, work, cheat)
    assert not any(passed(verdicts))
    assert [v.position for v in verdicts] == [len(ids) - 1 for ids in cheat]


def test_a7_other_seeds_tried(honest: Engine, forward: TransformersForward) -> None:
    """The shortest of several seeds' answers is handed in for each sample."""
    work = make_work()
    tries = [generated(honest, work.model_copy(update={"seed": seed})) for seed in (8, 9, 10)]
    best = [min(answers, key=len) for answers in zip(*tries, strict=True)]
    verdicts = judged(forward, work, best)
    assert not any(passed(verdicts))
    assert all((verdict.position or 0) < 15 for verdict in verdicts)


def test_a8_a_few_tokens_edited(honest: Engine, forward: TransformersForward) -> None:
    work = make_work()
    verdicts = judged(forward, work, generated(KINDS["edit-tokens"].cheat(honest), work))
    assert not any(passed(verdicts))


@pytest.mark.parametrize("kind", ["four-bit-weights", "eight-bit-weights", "fewer-layers"])
def test_a9_cheaper_weights(forward: TransformersForward, kind: str) -> None:
    """On enough tokens; how many each takes before each stack is in docs/audit.md."""
    work = make_work(samples=16)
    for engine in started(WEIGHTS, kind):
        verdicts = judged(forward, work, generated(engine, work))
    # Some thousand tokens show 8-bit weights and convict none yet.
    assert any(verdict.marks for verdict in verdicts)
    assert kind == "eight-bit-weights" or not all(passed(verdicts))


@pytest.mark.parametrize(
    "change", [{"temperature": 0.6}, {"top_p": 1.0}, {"top_k": 0}, {"min_p": 0.0, "top_k": 0}]
)
def test_a10_another_sampling(
    honest: Engine, forward: TransformersForward, change: dict[str, float]
) -> None:
    work = make_work(samples=16, **FILTERED)
    other = work.sampling.model_copy(update=change)
    if set(change) & {"top_k", "min_p"}:
        # Of several filters the narrowest alone shows.
        work = make_work(samples=16, temperature=1.5, **{name: FILTERED[name] for name in change})
        other = work.sampling.model_copy(update=change)
    verdicts = judged(forward, work, generated(honest, work.model_copy(update={"sampling": other})))
    assert not all(passed(verdicts))


def test_a11_another_samples_tokens(honest: Engine, forward: TransformersForward) -> None:
    work = make_work()
    truth = generated(honest, work)
    copied = generated(KINDS["copy-answers"].cheat(honest), work)
    assert copied[0] == truth[0]
    firsts = [index for index, sample in enumerate(work.samples) if sample.sample_index == 0]
    verdicts = judged(forward, work, copied)
    assert passed(verdicts) == [index in firsts for index in range(len(copied))]


def test_a23_honest_batches_of_any_size(honest: Engine, forward: TransformersForward) -> None:
    """vLLM's own scheduling is in ``tests/miner/test_engines.py``."""
    work = make_work(samples=8)
    whole = generated(honest, work)
    assert all(passed(judged(forward, work, whole)))
    for size in (1, 5):
        part = work.model_copy(update={"samples": work.samples[:size]})
        assert generated(honest, part) == whole[:size]


def test_a24_a_generation_config_of_the_repositorys_own(
    forward: TransformersForward, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(WEIGHTS, folder)
    facts = read_facts(WEIGHTS, MODEL, REVISION)
    (folder / "generation_config.json").write_text(
        f'{{"eos_token_id": [{facts.end_ids[0]}, 5], "temperature": 0.1, "top_k": 1, '
        '"repetition_penalty": 1.7, "do_sample": false, "max_new_tokens": 3, '
        '"suppress_tokens": [7, 8]}'
    )
    ends = read_facts(folder, MODEL, REVISION).end_ids
    assert ends == (facts.end_ids[0], 5)
    work = make_work().model_copy(update={"end_ids": list(ends)})
    for engine in started(folder):
        samples = generated(engine, work)
    assert all(passed(judged(forward, work, samples)))
    assert max(map(len, samples)) > 3


def test_a25_short_answers_and_short_prompts(honest: Engine, forward: TransformersForward) -> None:
    short = make_work(samples=12, max_tokens=1)
    samples = generated(honest, short)
    assert all(len(ids) == 1 for ids in samples)
    assert all(passed(judged(forward, short, samples)))
    # They are judged, not waved through.
    wrong = [[(ids[0] + 1) % short.vocabulary_size] for ids in samples]
    assert not all(passed(judged(forward, short, wrong)))
    limit = make_work(max_tokens=5)
    answers = generated(honest, limit)
    assert any(len(ids) == 5 for ids in answers)
    assert all(passed(judged(forward, limit, answers)))
    one = make_work().model_copy(update={"prompts": [[5], [9]]})
    assert all(passed(judged(forward, one, generated(honest, one))))
