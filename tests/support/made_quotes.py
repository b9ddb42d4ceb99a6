"""Quotes made up for tests: prompts by their ids, of a model that there is not."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

import numpy as np

from gateway.catalog.prices import load_prices
from gateway.intake.outcome import FIRST_SAMPLES, LINES, OFFSETS, PREVIEWS, PROMPTS, REFUSED, Intake
from gateway.orders.quote import Quote
from protocol.repository import ModelFacts
from protocol.sampling import Sampling

MODEL, REVISION, ARCHITECTURE = "org/model", "ab" * 20, "Qwen3ForCausalLM"
VOCABULARY, END = 96, 95
PARAMETERS = 100_000


def made_quote(
    folder: Path,
    now_ms: int,
    prompts: Sequence[Sequence[int]],
    *,
    n: int = 1,
    max_tokens: int = 6,
    seed: int | None = 7,
    refused: int = 0,
    endpoint: str = "/v1/chat/completions",
    references: Sequence[str] = (),
) -> Quote:
    """Return a quote whose usable lines have these prompt ids, behind ``refused`` bad ones.

    ``references`` are those of an evaluation's lines.
    """
    folder = folder / f"intake-{uuid4()}"
    folder.mkdir()
    offsets = np.cumsum([0, *(len(prompt) for prompt in prompts)]).astype("<u8")
    (folder / PROMPTS).write_bytes(np.concatenate(prompts).astype("<u4").tobytes())
    (folder / OFFSETS).write_bytes(offsets.tobytes())
    seen, lines = Counter[tuple[int, ...]](), []
    for index, prompt in enumerate(prompts):
        first = n * seen[tuple(prompt)]
        seen[tuple(prompt)] += 1
        row = {"line": 1 + refused + index, "custom_id": f"q{index}"}
        row |= {"reference": references[index]} if references else {}
        lines.append(json.dumps({**row, "first_sample_index": first}) + "\n")
    firsts = [json.loads(line)["first_sample_index"] for line in lines]
    (folder / FIRST_SAMPLES).write_bytes(np.array(firsts, "<u4").tobytes())
    (folder / LINES).write_text("".join(lines))
    error = {"code": "stop_unavailable", "message": "stop is not offered"}
    bad = [
        json.dumps({"custom_id": f"bad{index}", "line": 1 + index, "error": error}) + "\n"
        for index in range(refused)
    ]
    (folder / REFUSED).write_text("".join(bad))
    (folder / PREVIEWS).write_text("")
    intake = Intake(
        endpoint=endpoint,
        total_lines=len(prompts) + refused,
        refused_lines=refused,
        usable_lines=len(prompts),
        sampling=Sampling(max_tokens=max_tokens),
        n=n,
        seed=seed,
        prompt_tokens=int(offsets[-1]),
        longest_prompt=max(len(prompt) for prompt in prompts),
        folder=folder,
    )
    facts = ModelFacts(MODEL, REVISION, ARCHITECTURE, VOCABULARY, (END,), 32_768, "float32")
    price = load_prices().price(
        PARAMETERS,
        prompt_tokens=intake.prompt_tokens,
        lines=intake.usable_lines,
        n=n,
        max_tokens=max_tokens,
    )
    return Quote(intake, facts, price, now_ms, now_ms // 1000)
