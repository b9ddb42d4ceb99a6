"""The orders of a calibration: what customers may ask for, in all its variety, without an end."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

from transformers import AutoTokenizer

from protocol.messages import SampleReference, Work
from protocol.repository.facts import ModelFacts
from protocol.sampling import Sampling
from scripts.tiny_model import questions
from scripts.tiny_model.tales import HEROES, OBJECTS, article

# Temperatures, filters and their mixtures; the first two are those the audit's aims are stated for.
SAMPLINGS: dict[str, dict[str, float]] = {
    "T 1": {"temperature": 1.0},
    "T .6, top_k 20, top_p .95": {"temperature": 0.6, "top_k": 20, "top_p": 0.95},
    "T .2": {"temperature": 0.2},
    "T .7, top_p .8, top_k 20": {"temperature": 0.7, "top_p": 0.8, "top_k": 20},
    "T 1, min_p .05": {"temperature": 1.0, "min_p": 0.05},
    "T 1.3, top_p .9": {"temperature": 1.3, "top_p": 0.9},
    "T 1.5, min_p .1, top_k 40": {"temperature": 1.5, "min_p": 0.1, "top_k": 40},
    "T 2": {"temperature": 2.0},
}
# Samples a unit and samples a prompt: from a lone sample to a full batch.
SHAPES = ((64, 8), (1, 1), (256, 8), (8, 1), (64, 1), (32, 4))
LONG_IDS = 2_000  # ids of a long context
LONG_PROMPTS = 4  # most of them in a unit, since their prefill costs more than all the rest


@dataclass(frozen=True)
class Order:
    """A unit of work and what it is an example of."""

    work: Work
    sampling: str
    long_context: bool


def orders(
    folder: Path,
    facts: ModelFacts,
    max_tokens: int,
    seed: int,
    samplings: Sequence[str] = tuple(SAMPLINGS),
    shapes: Sequence[tuple[int, int]] = SHAPES,
) -> Iterator[Order]:
    """Yield orders on the model in ``folder``: samplings change fastest, then shapes, then prompts.

    Args:
        folder: the snapshot, with its tokenizer.
        facts: of the model at its revision.
        max_tokens: of every sample.
        seed: of prompts and draws.
        samplings: names in ``SAMPLINGS``.
        shapes: samples a unit, and how many of them a prompt has.
    """
    tokenizer = AutoTokenizer.from_pretrained(folder)
    numbers = Random(seed)
    for number in count():
        name = samplings[number % len(samplings)]
        turn = number // len(samplings)
        samples, each = shapes[turn % len(shapes)]
        long_context = turn % 5 == 4
        number_of_prompts = min(samples // each, LONG_PROMPTS if long_context else samples)
        prompts = [_prompt(tokenizer, numbers, long_context) for _ in range(number_of_prompts)]
        yield Order(
            Work(
                unit_id=f"00000000-0000-7000-8000-{number:012d}",
                model=facts.model,
                revision=facts.revision,
                seed=numbers.getrandbits(32),
                sampling=Sampling.model_validate(SAMPLINGS[name] | {"max_tokens": max_tokens}),
                vocabulary_size=facts.vocabulary_size,
                end_ids=list(facts.end_ids),
                prompts=prompts,
                samples=[
                    SampleReference(prompt=prompt, sample_index=index)
                    for prompt in range(len(prompts))
                    for index in range(each)
                ],
            ),
            name,
            long_context,
        )


def _prompt(tokenizer: Any, numbers: Random, long_context: bool) -> list[int]:
    """Return the ids of a prompt: mostly a tale, sometimes a question, or either after many."""
    turns: list[dict[str, str]] = []
    if long_context:
        ids = 0
        while ids < LONG_IDS:
            asked = questions.ask(numbers)
            turns += [
                {"role": "user", "content": asked.text},
                {"role": "assistant", "content": asked.answer},
            ]
            ids += len(asked.text) // 4 + len(asked.answer) // 4 + 12
    if numbers.random() < 0.2:
        text = questions.ask(numbers).text
    else:
        hero, thing = article(numbers.choice(HEROES)), article(numbers.choice(OBJECTS))
        text = f"Tell me a long tale about {hero} and {thing}."
    turns.append({"role": "user", "content": text})
    if tokenizer.chat_template is None:
        return tokenizer.encode("\n".join(turn["content"] for turn in turns))
    return tokenizer.apply_chat_template(
        turns, add_generation_prompt=True, enable_thinking=False, return_dict=False
    )
