"""What an audit costs: beside a bare forward of the same tokens, and beside generating them.

vLLM generates a unit of 256-token completions as one batch of 64, and one completion by itself. The
validator then audits the batch. Each part runs in a process of its own, one after another on the
same cores. Wall time is what counts; the processor's time stands beside it, as it says what a busy
machine hides.
"""

import os
import resource
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from protocol.messages import SampleReference, Work
from protocol.sampling import Sampling
from scripts.tiny_model import WEIGHTS

SAMPLINGS = {
    "T 1": Sampling(),
    "filtered": Sampling(temperature=0.6, top_k=20, top_p=0.95),
}
TOKENS, QUICK_TOKENS = 256, 64
DTYPES = ("bfloat16", "float32")
BATCH, QUICK_BATCH = 64, 8
ROUNDS, QUICK_ROUNDS = 3, 1
SUBJECTS = ("a fox", "two rivers", "the colour red", "nine and three", "a lost ship", "winter")
# An id that the tokenizer never makes: no sample ends before its limit.
NO_END = 2_047
# The model on which memory is measured: the vocabulary of a real one over a modest body.
LARGE_VOCABULARY = 151_936
LONG, QUICK_LONG = 8_192, 1_024
MIB = 2**20


@dataclass(frozen=True)
class Time:
    """What a piece of work took, in seconds."""

    wall: float = 0.0
    processor: float = 0.0


@dataclass(frozen=True)
class Measured:
    """One row of the table: ``tokens`` completion tokens were processed in ``time``."""

    what: str
    sampling: str
    dtype: str
    tokens: int
    time: Time

    @property
    def rate(self) -> float:
        """Completion tokens per second of wall time."""
        return self.tokens / self.time.wall


@dataclass(frozen=True)
class Memory:
    """The resident memory of a validator, in bytes: with the model loaded, and at its peak."""

    tokens: int
    vocabulary: int
    loaded: int
    peak: int


def run(quick: bool) -> tuple[list[Measured], Memory]:
    """Measure, print two tables, and return their entries; ``quick`` takes less of everything."""
    measured: list[Measured] = []
    for (name, sampling), dtype in product(SAMPLINGS.items(), DTYPES):
        limit = {"max_tokens": QUICK_TOKENS if quick else TOKENS}
        work = _work(QUICK_BATCH if quick else BATCH, sampling.model_copy(update=limit))
        batch, alone, samples = _in_child(_generate, work, dtype)
        measured.append(Measured("vLLM, batch 1", name, dtype, alone[1], alone[0]))
        tokens = sum(map(len, samples))
        measured.append(Measured(f"vLLM, batch {len(samples)}", name, dtype, tokens, batch))
        times = _in_child(_audit, work, samples, dtype, QUICK_ROUNDS if quick else ROUNDS)
        measured += [Measured(what, name, dtype, tokens, taken) for what, taken in times.items()]
    with tempfile.TemporaryDirectory() as folder:
        _in_child(_save_random, Path(folder))
        memory = _in_child(_peak, Path(folder), QUICK_LONG if quick else LONG)
    console = Console()
    console.print(_speed_table(measured))
    console.print(_memory_table(memory))
    return measured, memory


def main() -> None:
    """Read the command line and run."""

    def command(
        quick: Annotated[bool, typer.Option(help="Fewer tokens: a look, no figure.")] = False,
    ) -> None:
        """Measure audit speed against generation speed, and the validator's peak memory."""
        run(quick)

    typer.run(command)


def _in_child(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return what ``function`` returns in a fresh process, which leaves nothing behind here."""
    context = get_context("spawn")
    with ProcessPoolExecutor(1, context, initializer=_use_all_cores) as pool:
        return pool.submit(function, *arguments).result()


def _use_all_cores() -> None:
    os.environ["OMP_NUM_THREADS"] = str(os.cpu_count())


@contextmanager
def _timed(times: list[Time]) -> Iterator[None]:
    wall, processor = time.perf_counter(), time.process_time()
    yield
    times.append(Time(time.perf_counter() - wall, time.process_time() - processor))


def _best(times: Sequence[Time]) -> Time:
    return min(times, key=lambda taken: taken.wall)


def _work(count: int, sampling: Sampling) -> Work:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(WEIGHTS / "tokenizer.json"))
    text = "<|im_start|>user\nTell me a tale of {} and of {}.<|im_end|>\n<|im_start|>assistant\n"
    prompts = [
        tokenizer.encode(text.format(SUBJECTS[k % 6], SUBJECTS[k // 6 % 6])).ids
        for k in range(count)
    ]
    return Work(
        unit_id="0" * 36,
        model="reliquary/tiny-qwen3",
        revision="0" * 40,
        seed=1,
        sampling=sampling,
        vocabulary_size=NO_END + 1,
        end_ids=[NO_END],
        prompts=prompts,
        samples=[SampleReference(prompt=k, sample_index=k) for k in range(count)],
    )


def _generate(work: Work, dtype: Any) -> tuple[Time, tuple[Time, int], list[list[int]]]:
    """Return the batch's time, one completion's time and length, and the batch's samples."""
    from miner.engines.base import EngineSettings
    from miner.engines.vllm_engine import VllmEngine

    engine = VllmEngine()
    engine.load(WEIGHTS, work.model, work.revision, EngineSettings(dtype=dtype))
    one = work.model_copy(update={"samples": work.samples[:1]})
    engine.generate(one, lambda tokens: None, lambda: False)
    alone: list[Time] = []
    with _timed(alone):
        single = engine.generate(one, lambda tokens: None, lambda: False)
    batch: list[Time] = []
    samples: list[list[int]] = []
    for _ in range(2):
        with _timed(batch):
            samples = engine.generate(work, lambda tokens: None, lambda: False)
    engine.close()
    return _best(batch), (alone[0], len(single[0])), samples


def _audit(work: Work, samples: list[list[int]], dtype: str, rounds: int) -> dict[str, Time]:
    """Return the times of transformers' own forward, of the packed one and of the audit."""
    from scoring.published import chosen
    from validator.audit import PACK_TOKENS
    from validator.forward import Claim
    from validator.judge import LOGITS_BYTES, compile_ahead
    from validator.offline import audit
    from validator.transformers_forward import load

    forward = load(WEIGHTS, dtype)
    compile_ahead()
    profile = chosen(work.model, forward.stack(), forward.stack())
    rows = LOGITS_BYTES // (4 * forward.vocabulary_size)
    claims = [Claim(sample.prompt, ids) for sample, ids in zip(work.samples, samples, strict=True)]

    def packed() -> None:
        for found in forward.hidden(work.prompts, claims, PACK_TOKENS):
            for start in range(0, len(found.places), rows):
                forward.logits(found.hidden[start : start + rows])

    def audited() -> None:
        outcomes = {verdict.outcome for verdict in audit(work, samples, forward, profile)}
        if outcomes != {"verified"}:
            raise RuntimeError(f"honest samples were judged {outcomes}")

    ways = {
        "bare forward": _padded(work, samples, dtype),
        "packed forward": packed,
        "audit": audited,
    }
    times: dict[str, list[Time]] = {way: [] for way in ways}
    for function in ways.values():
        function()
    for _ in range(rounds):
        for way, function in ways.items():
            with _timed(times[way]):
                function()
    return {way: _best(taken) for way, taken in times.items()}


def _padded(work: Work, samples: list[list[int]], dtype: str) -> Callable[[], None]:
    """Return transformers' own forward of the same tokens, its head in float32 like the audit's."""
    import torch
    from transformers import AutoModelForCausalLM

    auto: Any = AutoModelForCausalLM
    model = auto.from_pretrained(WEIGHTS, dtype=dtype).eval()
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


def _save_random(folder: Path) -> None:
    """Save a model with random weights, a large vocabulary and a modest body."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    config = Qwen3Config(
        vocab_size=LARGE_VOCABULARY,
        hidden_size=512,
        intermediate_size=1_536,
        num_hidden_layers=4,
        num_attention_heads=8,
        num_key_value_heads=4,
        head_dim=64,
        max_position_embeddings=2 * LONG,
        tie_word_embeddings=True,
        dtype=torch.bfloat16,
    )
    Qwen3ForCausalLM._from_config(config).save_pretrained(folder)


def _peak(folder: Path, tokens: int) -> Memory:
    """Return the memory of an audit of one sample of ``tokens``."""
    from scoring.published import chosen
    from validator.judge import compile_ahead
    from validator.offline import audit
    from validator.transformers_forward import load

    forward = load(folder)
    compile_ahead()
    loaded = _resident()
    work = Work(
        unit_id="0" * 36,
        model="reliquary/random",
        revision="0" * 40,
        seed=1,
        sampling=Sampling(max_tokens=tokens),
        vocabulary_size=LARGE_VOCABULARY,
        end_ids=[LARGE_VOCABULARY - 1],
        prompts=[[1, 2, 3]],
        samples=[SampleReference(prompt=0, sample_index=0)],
    )
    profile = chosen(work.model, forward.stack(), forward.stack())
    # Made-up ids are hardly ever the drawn ones, so nearly every row has a margin to compute.
    audit(work, [[(7_919 * place) % 100_000 for place in range(tokens)]], forward, profile)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1_024
    return Memory(tokens, LARGE_VOCABULARY, loaded, peak)


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def _speed_table(measured: Sequence[Measured]) -> Table:
    table = Table(
        title=f"Audit speed, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}",
        caption="filtered: T .6, top_k 20, top_p .95; else T 1. bare forward: padded batches of 8",
    )
    for name in ("what", "sampling", "dtype"):
        table.add_column(name)
    for name in ("tokens", "wall s", "cpu s", "tokens/s", "audit is x"):
        table.add_column(name, justify="right")
    audits = {(one.sampling, one.dtype): one for one in measured if one.what == "audit"}
    for one in measured:
        audit = audits[one.sampling, one.dtype]
        table.add_row(
            one.what,
            one.sampling,
            one.dtype,
            f"{one.tokens:,}",
            f"{one.time.wall:.2f}",
            f"{one.time.processor:.2f}",
            f"{one.rate:,.0f}",
            f"{audit.rate / one.rate:.2f}",
        )
    return table


def _memory_table(memory: Memory) -> Table:
    table = Table(title=f"Memory of an audit, {memory.tokens:,} tokens x {memory.vocabulary:,} ids")
    for name in ("model loaded", "peak", "more than loaded", "rows x vocabulary would be"):
        table.add_column(name, justify="right")
    whole = 4 * memory.tokens * memory.vocabulary
    sizes = (memory.loaded, memory.peak, memory.peak - memory.loaded, whole)
    table.add_row(*(f"{size / MIB:,.0f} MiB" for size in sizes))
    return table


if __name__ == "__main__":
    main()
