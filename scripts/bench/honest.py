"""Honest samples under the audit: how often they differ from the draw, and whether any is voided.

Every engine generates the same orders on the tiny model; the validator's transformers forward
audits them. One row an engine, dtype and sampling; with ``--mixed`` one an engine and dtype, over
orders of all kinds, and what is void goes before a second validator, on vLLM.
"""

import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from transformers import AutoTokenizer

from miner.engines.base import ENGINE_FACTORIES, EngineSettings
from miner.engines.process import EngineProcess
from protocol.messages import EngineName, SampleReference, SampleVerdict, Stack, Work
from protocol.repository import read_facts
from protocol.sampling import Sampling
from scoring.published import chosen
from scripts.calibrate.forwards import load_forward
from scripts.calibrate.orders import orders
from scripts.tiny_model import WEIGHTS
from scripts.tiny_model.tales import HEROES, OBJECTS, article
from validator.offline import audit
from validator.transformers_forward import load

MODEL, REVISION = "reliquary/tiny-qwen3", "0" * 40
UNIT_SAMPLES = 64
SAMPLES_A_PROMPT = 8
MAX_TOKENS = 192
SEED = 7
# The two samplings that the audit's figures are stated for: all ids, and top_k 20 with top_p .95.
SAMPLINGS = {
    "T 1": Sampling(temperature=1.0, max_tokens=MAX_TOKENS),
    "T .6 filtered": Sampling(temperature=0.6, top_k=20, top_p=0.95, max_tokens=MAX_TOKENS),
}
DTYPES = ("bfloat16", "float32")
MIXED = "mixed"
# Of mixed samples: the share that may have so many tokens.
LENGTHS = {1: 0.15, 4: 0.15, 16: 0.2, 64: 0.25, 192: 0.2, 3_000: 0.05}


@dataclass(frozen=True)
class Honest:
    """What the audit found in one set of honest samples."""

    engine: str
    dtype: str
    sampling: str
    samples: int
    tokens: int
    mismatches: int
    largest_margin: float
    void: int
    void_twice: int
    longest: int


def run(samples: int, engines: Sequence[EngineName], mixed: bool = False) -> list[Honest]:
    """Generate and audit ``samples`` samples per engine, dtype and sampling; print a table.

    Args:
        mixed: one row an engine and dtype, over orders of all lengths, samplings and shapes.
    """
    found = asyncio.run(_run(samples, engines, mixed))
    # In a file the columns would be cut to those of an old terminal.
    Console(width=None if sys.stdout.isatty() else 120).print(_table(found))
    return found


def main() -> None:
    """Read the command line and measure."""

    def command(
        samples: Annotated[int, typer.Option(help="Samples per row of the table.")] = 2_000,
        engine: Annotated[
            EngineName | None, typer.Option(help="One engine alone; both by default.")
        ] = None,
        mixed: Annotated[
            bool, typer.Option("--mixed", help="Orders of all lengths and samplings in one row.")
        ] = False,
    ) -> None:
        run(samples, list(ENGINE_FACTORIES) if engine is None else [engine], mixed)

    typer.run(command)


async def _run(samples: int, engines: Sequence[EngineName], mixed: bool) -> list[Honest]:
    found: list[Honest] = []
    with Progress() as progress:
        works = _mixed_works(samples) if mixed else _plain_works(samples)
        total = len(engines) * len(DTYPES) * samples * (1 if mixed else len(SAMPLINGS))
        task = progress.add_task("honest samples", total=total)
        for engine in engines:
            for dtype in DTYPES:
                told = partial(progress.advance, task)
                found += [one async for one in _measure(engine, dtype, works, told)]
    return found


async def _measure(
    engine: EngineName,
    dtype: str,
    works: Mapping[str, Sequence[Work]],
    told: Callable[[int], None],
) -> AsyncIterator[Honest]:
    forward = load(WEIGHTS, dtype)
    settings = EngineSettings.model_validate({"dtype": dtype, "threads": 1})
    with tempfile.TemporaryDirectory() as folder:
        process = await EngineProcess.start(
            ENGINE_FACTORIES[engine], WEIGHTS, MODEL, REVISION, settings, Path(folder) / "log"
        )
        try:
            for name, orders_of_it in works.items():
                verdicts: list[SampleVerdict] = []
                void: list[tuple[Work, list[list[int]]]] = []
                for work in orders_of_it:
                    drawn = await process.generate(work, lambda tokens: None)
                    profile = chosen(work.model, process.stack, forward.stack())
                    judged = await asyncio.to_thread(audit, work, drawn, forward, profile)
                    verdicts += judged
                    if any(verdict.outcome != "verified" for verdict in judged):
                        void.append((work, drawn))
                    told(len(judged))
                twice = await asyncio.to_thread(_void_twice, process.stack, dtype, void)
                yield _summed(engine, dtype, name, verdicts, twice)
        finally:
            await process.close()


def _void_twice(stack: Stack, dtype: str, void: Sequence[tuple[Work, list[list[int]]]]) -> int:
    """Return how many samples of units with void ones are void before vLLM's prefill too."""
    if not void:
        return 0
    second, found = load_forward("vllm", WEIGHTS, dtype), 0
    for work, drawn in void:
        verdicts = audit(work, drawn, second, chosen(work.model, stack, second.stack()))
        found += sum(verdict.outcome != "verified" for verdict in verdicts)
    return found


def _plain_works(samples: int) -> dict[str, list[Work]]:
    return {name: list(_works(sampling, samples)) for name, sampling in SAMPLINGS.items()}


def _mixed_works(samples: int) -> dict[str, list[Work]]:
    """Return units of all samplings, shapes and contexts, of lengths as ``LENGTHS`` has them."""
    facts = read_facts(WEIGHTS, MODEL, REVISION)
    works: list[Work] = []
    for length, share in LENGTHS.items():
        due = share * samples
        for order in orders(WEIGHTS, facts, max_tokens=length, seed=SEED + length):
            works.append(order.work)
            due -= len(order.work.samples)
            if due <= 0:
                break
    return {MIXED: works}


def _works(sampling: Sampling, samples: int) -> Iterator[Work]:
    tokenizer = AutoTokenizer.from_pretrained(WEIGHTS)
    facts = read_facts(WEIGHTS, MODEL, REVISION)
    pairs = [(hero, thing) for thing in OBJECTS for hero in HEROES]
    a_unit = UNIT_SAMPLES // SAMPLES_A_PROMPT
    for number in range(-(-samples // UNIT_SAMPLES)):
        chosen = [pairs[(number * a_unit + place) % len(pairs)] for place in range(a_unit)]
        questions = [
            f"Tell me a long tale about {article(hero)} and {article(thing)}."
            for hero, thing in chosen
        ]
        prompts = [
            tokenizer.apply_chat_template(
                [{"role": "user", "content": question}],
                add_generation_prompt=True,
                enable_thinking=False,
                return_dict=False,
            )
            for question in questions
        ]
        yield Work(
            unit_id=f"00000000-0000-7000-8000-{number:012d}",
            model=MODEL,
            revision=REVISION,
            seed=SEED + number,
            sampling=sampling,
            vocabulary_size=facts.vocabulary_size,
            end_ids=list(facts.end_ids),
            prompts=prompts,
            samples=[
                SampleReference(prompt=prompt, sample_index=index)
                for prompt in range(a_unit)
                for index in range(SAMPLES_A_PROMPT)
            ],
        )


def _summed(
    engine: str, dtype: str, sampling: str, verdicts: Sequence[SampleVerdict], void_twice: int
) -> Honest:
    return Honest(
        engine=engine,
        dtype=dtype,
        sampling=sampling,
        samples=len(verdicts),
        tokens=sum(verdict.tokens for verdict in verdicts),
        mismatches=sum(verdict.mismatches for verdict in verdicts),
        largest_margin=max(verdict.largest_margin_micro for verdict in verdicts) / 1e6,
        void=sum(verdict.outcome != "verified" for verdict in verdicts),
        void_twice=void_twice,
        longest=max(verdict.tokens for verdict in verdicts),
    )


def _table(found: Sequence[Honest]) -> Table:
    table = Table(title="honest samples, audited by transformers in the same dtype")
    for heading in ("engine", "dtype", "sampling"):
        table.add_column(heading)
    for heading in ("samples", "mean ids", "most", "differ", "largest margin", "void", "twice"):
        table.add_column(heading, justify="right")
    for one in found:
        table.add_row(
            one.engine,
            one.dtype,
            one.sampling,
            f"{one.samples:,}",
            f"{one.tokens / one.samples:.0f}",
            f"{one.longest:,}",
            f"{100 * one.mismatches / one.tokens:.4f} %",
            f"{one.largest_margin:.3f}",
            str(one.void),
            str(one.void_twice),
        )
    return table


if __name__ == "__main__":
    main()
