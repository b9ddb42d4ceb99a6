"""Decoding with the draw against vLLM's own sampler, in one engine and one run.

The project's tiny model in float32 (a CPU without bfloat16 would spend its time on emulating it
and hide the sampler), one batch of 64 samples of one length. Every way takes its turn in every
round, so that whatever else the machine does falls on all of them, and the best round counts.
Times are the processor's, on one core.
"""

import argparse
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from tokenizers import Tokenizer

from miner.engines.base import EngineSettings
from miner.engines.vllm_engine import VllmEngine
from protocol.messages import SampleReference, Work
from protocol.sampling import Sampling
from scripts.tiny_model import WEIGHTS

if TYPE_CHECKING:
    from vllm import SamplingParams

MODEL, REVISION = "reliquary/tiny-qwen3", "0" * 40
PROMPT = "<|im_start|>user\nTell me a short tale.<|im_end|>\n<|im_start|>assistant\n"
BATCH = 64
TOKENS, QUICK_TOKENS = 128, 32
ROUNDS, QUICK_ROUNDS = 6, 2
GREEDY, OWN, DRAW = "vLLM, greedy", "vLLM, its own sampler", "vLLM, the draw"
SAMPLINGS = {"unfiltered": Sampling(), "top_k 20, top_p .95": Sampling(top_k=20, top_p=0.95)}


@dataclass(frozen=True)
class Rate:
    """The best rate of one way of decoding."""

    way: str
    filters: str
    tokens_per_second: float
    ratio: float  # times vLLM's own sampler of the same run


class BenchEngine(VllmEngine):
    """The miner's engine, which also decodes without the draw."""

    def processor(self) -> str:
        """Return the processor that stands aside where no draw is asked for."""
        return "scripts.bench.optional_draw:OptionalDraw"

    def decode_without_draw(self, prompts: list[list[int]], params: "SamplingParams") -> int:
        """Return the number of tokens that vLLM's own sampler makes of ``prompts``."""
        requests = ((prompt, params) for prompt in prompts)
        return sum(
            len(output.outputs[0].token_ids) for output in self._run(requests, lambda: False)
        )


def run(quick: bool) -> list[Rate]:
    """Measure, print the table and return its entries; ``quick`` decodes fewer tokens.

    Raises:
        EngineError: vLLM is not installed or refuses the model.
    """
    # vLLM's start would bury the table.
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    engine = BenchEngine()
    settings = EngineSettings(dtype="float32", max_batch=BATCH, threads=1)
    engine.load(WEIGHTS, MODEL, REVISION, settings)
    tokens, rounds = (QUICK_TOKENS, QUICK_ROUNDS) if quick else (TOKENS, ROUNDS)
    rates = [
        rate
        for filters, sampling in SAMPLINGS.items()
        for rate in _measure(engine, filters, sampling, tokens, rounds)
    ]
    Console().print(_table(rates, tokens))
    engine.close()
    return rates


def main() -> None:
    """Measure decoding from the command line."""
    parser = argparse.ArgumentParser(description="Decode with the draw and without, by vLLM.")
    parser.add_argument("--quick", action="store_true", help="fewer tokens: a look, no figure")
    run(parser.parse_args().quick)


def _measure(
    engine: BenchEngine, filters: str, sampling: Sampling, tokens: int, rounds: int
) -> list[Rate]:
    """Time every way of decoding under one set of filters."""
    ways = _ways(engine, sampling, tokens)
    best = dict.fromkeys(ways, 0.0)
    for _ in range(rounds):
        for way, decode in ways.items():
            start = time.process_time()
            made = decode()
            best[way] = max(best[way], made / (time.process_time() - start))
            if made != BATCH * tokens:
                raise RuntimeError(f"{way} made {made} tokens in place of {BATCH * tokens}")
    return [Rate(way, filters, rate, rate / best[OWN]) for way, rate in best.items()]


def _ways(engine: BenchEngine, sampling: Sampling, tokens: int) -> dict[str, Callable[[], int]]:
    """Return every way of decoding the batch, by name; each returns the tokens it made."""
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    prompt = Tokenizer.from_file(str(WEIGHTS / "tokenizer.json")).encode(PROMPT).ids
    prompts = [prompt] * BATCH

    def plain(temperature: float) -> SamplingParams:
        return SamplingParams(
            temperature=temperature,
            top_k=sampling.top_k,
            top_p=sampling.top_p,
            max_tokens=tokens,
            ignore_eos=True,
            detokenize=False,
            output_kind=RequestOutputKind.DELTA,
        )

    vocabulary = engine.vocabulary()
    work = Work(
        unit_id="00000000-0000-7000-8000-000000000000",
        model=MODEL,
        revision=REVISION,
        seed=1,
        sampling=sampling.model_copy(update={"max_tokens": tokens}),
        vocabulary_size=vocabulary,
        # An id outside the draw never ends a sample, so that every way decodes the same length.
        end_ids=[vocabulary],
        prompts=[prompt],
        samples=[SampleReference(prompt=0, sample_index=index) for index in range(BATCH)],
    )
    return {
        GREEDY: lambda: engine.decode_without_draw(prompts, plain(0.0)),
        OWN: lambda: engine.decode_without_draw(prompts, plain(sampling.temperature)),
        DRAW: lambda: sum(
            len(ids) for ids in engine.generate(work, lambda drawn: None, lambda: False)
        ),
    }


def _table(rates: list[Rate], tokens: int) -> Table:
    table = Table(
        title=f"Decoding {BATCH} samples of {tokens} tokens, float32\n"
        "tokens/s on one core, and times vLLM's own sampler"
    )
    table.add_column("")
    for filters in SAMPLINGS:
        table.add_column(filters, justify="right")
    for way in (GREEDY, OWN, DRAW):
        cells = [rate for rate in rates if rate.way == way]
        table.add_row(way, *(f"{c.tokens_per_second:,.0f}  {c.ratio:.2f}x" for c in cells))
    return table


if __name__ == "__main__":
    main()
