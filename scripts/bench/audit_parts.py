"""The parts of ``audit_speed``, each for a fresh process: generation, audit, prefill, memory."""

import resource
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from protocol.messages import SampleReference, Work
from protocol.sampling import Sampling
from scripts.tiny_model import WEIGHTS

SUBJECTS = ("a fox", "two rivers", "the colour red", "nine and three", "a lost ship", "winter")
# The vocabulary of a real model, over a modest body.
VOCABULARY = 151_936
BARE, PADDED, AUDIT = "packed forward", "transformers, padded", "audit"
ROUNDS_SHARED = 3
# Lengths as text has them: the median and the spread of their logarithms.
PROMPT_LENGTHS, COMPLETION_LENGTHS, SPREAD = 200, 180, 0.8
MIXED, PADDING_SEED = 256, 1


@dataclass(frozen=True)
class Subject:
    """A model and the unit that it is measured on.

    Attributes:
        name: as the tables show it.
        folder: the model's files.
        vocabulary: rows of its head, all of which are drawn from; the last id ends a sample, so
            that hardly any ends before its limit.
        batch: samples of the unit, each of its own prompt.
        tokens: of each completion.
    """

    name: str
    folder: Path
    vocabulary: int
    batch: int
    tokens: int


@dataclass(frozen=True)
class Time:
    """What a piece of work took, in seconds."""

    wall: float = 0.0
    processor: float = 0.0


@dataclass(frozen=True)
class Measured:
    """One row of the table: ``tokens`` completion tokens were processed in ``time``."""

    model: str
    what: str
    sampling: str
    dtype: str
    tokens: int
    time: Time
    verified: float

    @property
    def rate(self) -> float:
        """Completion tokens per second of the processor's time."""
        return self.tokens / self.time.processor


@dataclass(frozen=True)
class Shared:
    """The forward of samples that share their prompt's prefill, and of the same ones apart."""

    model: str
    fed: int
    fed_apart: int
    time: Time
    apart: Time


@dataclass(frozen=True)
class Memory:
    """The resident memory of a validator, in bytes: with the model loaded, and at its peak."""

    tokens: int
    vocabulary: int
    loaded: int
    peak: int


def work(subject: Subject, sampling: Sampling) -> Work:
    """Return the unit that a subject is measured on."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(WEIGHTS / "tokenizer.json"))
    text = "<|im_start|>user\nTell me a tale of {} and of {}.<|im_end|>\n<|im_start|>assistant\n"
    prompts = [
        tokenizer.encode(text.format(SUBJECTS[k % 6], SUBJECTS[k // 6 % 6])).ids
        for k in range(subject.batch)
    ]
    return _unit(subject.vocabulary, sampling, subject.tokens, prompts, range(subject.batch))


def generate(
    folder: Path, work: Work, dtype: Any
) -> tuple[Time, tuple[Time, int], list[list[int]]]:
    """Return the batch's time, one completion's time and length, and the batch's samples."""
    from miner.engines.base import EngineSettings
    from miner.engines.vllm_engine import VllmEngine

    engine = VllmEngine()
    engine.load(folder, work.model, work.revision, EngineSettings(dtype=dtype))
    one = work.model_copy(update={"samples": work.samples[:1]})
    engine.generate(one, lambda tokens: None, lambda: False)
    alone: list[Time] = []
    with _timed(alone):
        single = engine.generate(one, lambda tokens: None, lambda: False)
    batch: list[Time] = []
    with _timed(batch):
        samples = engine.generate(work, lambda tokens: None, lambda: False)
    engine.close()
    return batch[0], (alone[0], len(single[0])), samples


def audit(
    folder: Path, work: Work, samples: list[list[int]], dtype: str, rounds: int
) -> tuple[dict[str, Time], float]:
    """Return the times of the bare forwards and of the audit, and the share that is verified."""
    from scoring.published import chosen
    from validator.audit import PACK_TOKENS
    from validator.forward import Claim
    from validator.judge import chunks, compile_ahead
    from validator.offline import audit
    from validator.transformers_forward import load

    forward = load(folder, dtype)
    compile_ahead()
    profile = chosen(work.model, forward.stack(), forward.stack())
    claims = [Claim(sample.prompt, ids) for sample, ids in zip(work.samples, samples, strict=True)]

    def packed() -> None:
        for found in forward.hidden(work.prompts, claims, PACK_TOKENS):
            for start, stop in chunks(len(found.places), forward):
                forward.logits(found.hidden[start:stop])

    def audited() -> float:
        verdicts = audit(work, samples, forward, profile)
        return sum(verdict.outcome == "verified" for verdict in verdicts) / len(verdicts)

    verified = audited()
    packed()
    times: dict[str, list[Time]] = {PADDED: [], BARE: [], AUDIT: []}
    padded = _padded(folder, work, samples, dtype)
    with _timed(times[PADDED]):
        padded()
    for _ in range(rounds):
        for way, function in ((BARE, packed), (AUDIT, audited)):
            with _timed(times[way]):
                function()
    return {way: _best(taken) for way, taken in times.items()}, verified


def prefill(subject: Subject, samples: int, prompt: int, tokens: int) -> Shared:
    """Return what ``samples`` behind one prompt cost together and, behind copies of it, apart."""
    from validator.audit import PACK_TOKENS
    from validator.forward import Claim
    from validator.packing import packs
    from validator.transformers_forward import load

    forward = load(subject.folder, "float32")
    ids = [(7_919 * place) % subject.vocabulary for place in range(prompt + samples * tokens)]
    answers = [ids[prompt + k * tokens :][:tokens] for k in range(samples)]
    together = [ids[:prompt]], [Claim(0, answer) for answer in answers]
    apart = [ids[:prompt]] * samples, [Claim(k, answer) for k, answer in enumerate(answers)]
    times: list[Time] = []
    fed: list[int] = []
    for prompts, claims in (together, apart):
        taken: list[Time] = []
        for _ in range(ROUNDS_SHARED):
            with _timed(taken):
                for _ in forward.hidden(prompts, claims, PACK_TOKENS):
                    pass
        times.append(_best(taken))
        fed.append(sum(len(pack.tokens) for pack in packs(prompts, claims, PACK_TOKENS)))
    return Shared(subject.name, fed[0], fed[1], times[0], times[1])


def padding() -> dict[str, float]:
    """Return how much more than the tokens themselves each kind of batch feeds to a model."""
    import numpy as np

    from validator.audit import PACK_TOKENS
    from validator.forward import Claim
    from validator.packing import packs
    from validator.row_batches import row_batches

    random = np.random.default_rng(PADDING_SEED)
    lengths = [
        np.maximum(1, random.lognormal(np.log(median), SPREAD, MIXED).astype(int))
        for median in (PROMPT_LENGTHS, COMPLETION_LENGTHS)
    ]
    prompts, answers = ([[0] * int(length) for length in part] for part in lengths)
    claims = [Claim(number, ids) for number, ids in enumerate(answers)]
    # A claim's last token is predicted, never fed.
    needed = sum(map(len, prompts)) + sum(len(ids) - 1 for ids in answers)
    packed = sum(len(pack.tokens) for pack in packs(prompts, claims, PACK_TOKENS))
    rows = sum(batch.tokens.size for batch in row_batches(prompts, claims, PACK_TOKENS))
    return {"packs": packed / needed - 1, "batches of rows": rows / needed - 1}


def save_random(folder: Path) -> None:
    """Save a model of random weights, 104 M of them, with a real model's vocabulary."""
    from scripts.tiny_model.random_models import make_random

    make_random("Qwen3ForCausalLM", folder, hidden=512, layers=8, vocabulary=VOCABULARY)


def peak(folder: Path, tokens: int) -> Memory:
    """Return the memory of an audit of one sample of ``tokens``."""
    from scoring.published import chosen
    from validator.judge import compile_ahead
    from validator.offline import audit
    from validator.transformers_forward import load

    forward = load(folder)
    compile_ahead()
    loaded = _resident()
    unit = _unit(VOCABULARY, Sampling(), tokens, [[1, 2, 3]], [0])
    profile = chosen(unit.model, forward.stack(), forward.stack())
    # Made-up ids are hardly ever the drawn ones, so nearly every row has a margin to compute.
    audit(unit, [[(7_919 * place) % 100_000 for place in range(tokens)]], forward, profile)
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1_024
    return Memory(tokens, VOCABULARY, loaded, most)


def _unit(
    vocabulary: int,
    sampling: Sampling,
    tokens: int,
    prompts: list[list[int]],
    owners: Sequence[int],
) -> Work:
    return Work(
        unit_id="0" * 36,
        model="reliquary/tiny-qwen3",
        revision="0" * 40,
        seed=1,
        sampling=sampling.model_copy(update={"max_tokens": tokens}),
        vocabulary_size=vocabulary,
        end_ids=[vocabulary - 1],
        prompts=prompts,
        samples=[SampleReference(prompt=owner, sample_index=k) for k, owner in enumerate(owners)],
    )


def _padded(folder: Path, work: Work, samples: list[list[int]], dtype: str) -> Callable[[], None]:
    """Return transformers' own forward of the same tokens, its head in float32 like the audit's."""
    import torch
    from transformers import AutoModelForCausalLM

    auto: Any = AutoModelForCausalLM
    model = auto.from_pretrained(folder, dtype=dtype).eval()
    head = model.get_output_embeddings().weight.detach().float()
    sequences = sorted(
        (
            (len(work.prompts[sample.prompt]), [*work.prompts[sample.prompt], *ids[:-1]])
            for sample, ids in zip(work.samples, samples, strict=True)
        ),
        key=lambda pair: len(pair[1]),
    )

    def forward() -> None:
        for start in range(0, len(sequences), 8):
            part = sequences[start : start + 8]
            longest = max(len(ids) for _, ids in part)
            padded = torch.tensor([ids + [0] * (longest - len(ids)) for _, ids in part])
            with torch.inference_mode():
                hidden = model.base_model(padded).last_hidden_state
                for row, (prompt, ids) in zip(hidden, part, strict=True):
                    torch.nn.functional.linear(row[prompt - 1 : len(ids)].float(), head)

    return forward


@contextmanager
def _timed(times: list[Time]) -> Iterator[None]:
    wall, processor = time.perf_counter(), time.process_time()
    yield
    times.append(Time(time.perf_counter() - wall, time.process_time() - processor))


def _best(times: Sequence[Time]) -> Time:
    return min(times, key=lambda taken: taken.processor)


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()
