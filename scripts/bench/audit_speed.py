"""What an audit costs: beside a bare forward of the same tokens, and beside generating them.

vLLM generates a unit as one batch, and one completion by itself; the validator then audits the
batch. That is done with the tiny model and with one of a real model's shape. Each part runs in a
process of its own, one after another, on one thread. The processor's time is what counts, the
least of several rounds: it is the same however busy the machine is.
"""

import os
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from protocol.sampling import Sampling
from scripts.bench import audit_parts
from scripts.bench.audit_parts import Measured, Memory, Shared, Subject
from scripts.tiny_model import WEIGHTS

SAMPLINGS = {
    "T 1": Sampling(),
    "filtered": Sampling(temperature=0.6, top_k=20, top_p=0.95),
}
DTYPES = ("bfloat16", "float32")
# The samples of one prompt, for the prefill that they share: how many, of how many tokens.
FAMILY, PROMPT_TOKENS, FAMILY_TOKENS = 8, 512, 64
LONG, QUICK_LONG = 8_192, 1_024
MIB = 2**20


def run(quick: bool) -> tuple[list[Measured], list[Shared], Memory]:
    """Measure, print the tables, and return their entries; ``quick`` takes less of everything."""
    with tempfile.TemporaryDirectory() as folder:
        _in_child(audit_parts.save_random, Path(folder))
        subjects = (
            Subject("tiny", WEIGHTS, 2_048, 8 if quick else 64, 64 if quick else 256),
            Subject("random, 104 M", Path(folder), audit_parts.VOCABULARY, 8 if quick else 64, 16),
        )
        measured: list[Measured] = []
        for subject, (name, sampling), dtype in product(subjects, SAMPLINGS.items(), DTYPES):
            measured += _measure(subject, name, sampling, dtype, 1 if quick else 3)
        shared = [
            _in_child(audit_parts.prefill, subject, FAMILY, PROMPT_TOKENS, FAMILY_TOKENS)
            for subject in subjects
        ]
        memory = _in_child(audit_parts.peak, Path(folder), QUICK_LONG if quick else LONG)
    padding = audit_parts.padding()
    console = Console()
    for subject in subjects:
        part = [one for one in measured if one.model == subject.name]
        console.print(_speed_table(subject.name, part))
    console.print(_shared_table(shared))
    for kind, share in padding.items():
        console.print(f"Padding of {kind}, lengths mixed as text's: {share:.1%} of the tokens")
    console.print(_memory_table(memory))
    return measured, shared, memory


def main() -> None:
    """Read the command line and run."""

    def command(
        quick: Annotated[bool, typer.Option(help="Fewer tokens: a look, no figure.")] = False,
    ) -> None:
        """Measure audit speed against generation speed, and the validator's peak memory."""
        run(quick)

    typer.run(command)


def _measure(
    subject: Subject, name: str, sampling: Sampling, dtype: str, rounds: int
) -> list[Measured]:
    """Return the rows of one model, sampling and dtype."""
    work = audit_parts.work(subject, sampling)
    batch, alone, samples = _in_child(audit_parts.generate, subject.folder, work, dtype)
    tokens = sum(map(len, samples))
    times = {
        "vLLM, batch 1": (alone[0], alone[1]),
        f"vLLM, batch {len(samples)}": (batch, tokens),
    }
    audited, verified = _in_child(audit_parts.audit, subject.folder, work, samples, dtype, rounds)
    times |= {what: (taken, tokens) for what, taken in audited.items()}
    return [
        Measured(subject.name, what, name, dtype, count, taken, verified)
        for what, (taken, count) in times.items()
    ]


def _in_child(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return what ``function`` returns in a fresh process, which leaves nothing behind here."""
    context = get_context("spawn")
    with ProcessPoolExecutor(1, context, initializer=_use_one_thread) as pool:
        return pool.submit(function, *arguments).result()


def _use_one_thread() -> None:
    os.environ["OMP_NUM_THREADS"] = "1"


def _speed_table(model: str, measured: Sequence[Measured]) -> Table:
    table = Table(
        title=f"Audit speed, model {model}, one thread, load {os.getloadavg()[0]:.1f}",
        caption="filtered: T .6, top_k 20, top_p .95; else T 1. padded: batches of 8, no packing.\n"
        "x forward: processor time a token over the bare packed forward's, head included",
    )
    for name in ("what", "sampling", "dtype"):
        table.add_column(name)
    for name in ("tokens", "verified", "wall s", "cpu s", "tokens / cpu s", "x forward", "x audit"):
        table.add_column(name, justify="right")
    rates = {(one.what, one.sampling, one.dtype): one.rate for one in measured}
    for one in measured:
        own = (one.sampling, one.dtype)
        table.add_row(
            one.what,
            *own,
            f"{one.tokens:,}",
            f"{one.verified:.0%}" if one.what == audit_parts.AUDIT else "",
            f"{one.time.wall:.2f}",
            f"{one.time.processor:.2f}",
            f"{one.rate:,.0f}",
            f"{rates[audit_parts.BARE, *own] / one.rate:.2f}",
            f"{rates[audit_parts.AUDIT, *own] / one.rate:.2f}",
        )
    return table


def _shared_table(shared: Sequence[Shared]) -> Table:
    table = Table(
        title=f"{FAMILY} samples of {FAMILY_TOKENS} tokens behind one prompt of {PROMPT_TOKENS}",
        caption="processor seconds of the forward without its head, float32",
    )
    for name in ("model", "fed, shared", "fed, apart", "shared s", "apart s", "ratio"):
        table.add_column(name, justify="right")
    for one in shared:
        cells = (one.fed, one.fed_apart)
        times = (one.time.processor, one.apart.processor)
        table.add_row(
            one.model,
            *(f"{fed:,}" for fed in cells),
            *(f"{taken:.3f}" for taken in times),
            f"{times[0] / times[1]:.2f}",
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
