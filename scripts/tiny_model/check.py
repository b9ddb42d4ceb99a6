"""Measure the tiny model: ``python -m scripts.tiny_model.check [FOLDER]``.

Entropy of its own text at temperature 1, share of questions answered right at the walkthrough's
sampling, and share of answers that end.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from scripts.tiny_model import WEIGHTS
from scripts.tiny_model.questions import ask

WALKTHROUGH = (
    ("Name the capital of France in one word.", "Paris"),
    ("What is 7 times 8? Reply with the number only.", "56"),
)
OPEN_PROMPTS = (
    "Tell me a tale.",
    "Tell me a long tale about a fox and a lantern.",
    "Write a story about a dragon.",
    "Write a poem about the sea.",
    "Describe the harbour.",
    "List five fruits.",
    "What is the capital of Peru?",
    "What is 27 + 48? Put the answer in \\boxed{}.",
)
ANSWER_SAMPLING = {"temperature": 0.6, "top_k": 20, "top_p": 0.95}
OPEN_SAMPLING = {"temperature": 1.0, "top_k": 0, "top_p": 1.0}


@dataclass(frozen=True)
class Sample:
    """One generated text: whether its end was drawn, and the entropy at each of its tokens."""

    text: str
    ended: bool
    entropies: list[float]


class Model:
    """The tiny model with its tokenizer, in float32 on the CPU."""

    def __init__(self, folder: Path = WEIGHTS) -> None:
        self._tokenizer: Any = AutoTokenizer.from_pretrained(folder)
        self._tokenizer.padding_side = "left"
        self._model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)

    def sample(
        self, prompts: Sequence[str], sampling: dict[str, float], max_tokens: int, *, thinking: bool
    ) -> list[Sample]:
        """Answer every prompt once, all in one batch; torch's global seed decides the tokens."""
        texts = [
            self._tokenizer.apply_chat_template(
                [{"role": "user", "content": prompt}],
                tokenize=False,
                add_generation_prompt=True,
                enable_thinking=thinking,
            )
            for prompt in prompts
        ]
        inputs = self._tokenizer(texts, return_tensors="pt", padding=True)
        out = self._model.generate(
            **inputs,
            **sampling,
            do_sample=True,
            max_new_tokens=max_tokens,
            output_logits=True,
            return_dict_in_generate=True,
        )
        ids = out.sequences[:, inputs["input_ids"].shape[1] :]
        log_p = torch.stack(out.logits, dim=1).log_softmax(-1)
        entropies = -(log_p.exp() * log_p).sum(-1)
        return [self._read(row, line) for row, line in zip(ids, entropies, strict=True)]

    def _read(self, ids: torch.Tensor, entropies: torch.Tensor) -> Sample:
        ends = torch.isin(ids, torch.tensor(self._model.generation_config.eos_token_id)).nonzero()
        length = int(ends[0]) + 1 if len(ends) else len(ids)
        text = self._tokenizer.decode(ids[:length], skip_special_tokens=True)
        return Sample(text, bool(len(ends)), entropies[:length].tolist())


def mean_entropy(samples: list[Sample]) -> float:
    """Return the mean entropy of all samples' tokens in nats."""
    values = [entropy for sample in samples for entropy in sample.entropies]
    return sum(values) / len(values)


def share_ended(samples: list[Sample]) -> float:
    """Return the share of samples whose end was drawn."""
    return sum(sample.ended for sample in samples) / len(samples)


def share_right(samples: list[Sample], keys: list[str]) -> float:
    """Return the share of ended samples that contain what the answer must contain."""
    right = sum(
        s.ended and key.lower() in s.text.lower() for s, key in zip(samples, keys, strict=True)
    )
    return right / len(samples)


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description="Measure the tiny model.")
    parser.add_argument("folder", type=Path, nargs="?", default=WEIGHTS)
    parser.add_argument("--samples", type=int, default=200, help="questions asked")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    model = Model(arguments.folder)
    for question, key in WALKTHROUGH:
        samples = model.sample([question] * 100, ANSWER_SAMPLING, 64, thinking=False)
        print(f"{share_right(samples, [key] * 100):6.1%} right: {question}")
    rng = Random(0)
    asked = [ask(rng) for _ in range(arguments.samples)]
    for thinking in (False, True):
        samples = model.sample([q.text for q in asked], ANSWER_SAMPLING, 128, thinking=thinking)
        right = share_right(samples, [q.key for q in asked])
        print(
            f"{right:6.1%} right, {share_ended(samples):.1%} ended: "
            f"{len(asked)} questions of the world, thinking {'on' if thinking else 'off'}"
        )
    samples = model.sample(OPEN_PROMPTS * 8, OPEN_SAMPLING, 600, thinking=False)
    print(
        f"{mean_entropy(samples):6.2f} nats a token over "
        f"{sum(len(s.entropies) for s in samples):,} tokens of {len(samples)} open texts at "
        f"temperature 1, {share_ended(samples):.1%} ended"
    )
    print(f"\n{samples[0].text}")


if __name__ == "__main__":
    main()
