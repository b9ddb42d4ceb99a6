"""Input files of a given size, their prompts made of the model's words as often as words come."""

import json
from pathlib import Path

import numpy as np

from scripts.bench.intake.model import words

MODEL = "reliquary/made-up"
SEED = 7
# Of the vocabulary too: the model knows no English.
SYSTEM = " ".join(words()[:4])


def write_file(path: Path, lines: int, size: int) -> None:
    """Write an input file of ``lines`` chat lines and exactly ``size`` bytes."""
    generator = np.random.default_rng(SEED)
    vocabulary = np.array(words())
    # The n-th commonest word comes 1/n times as often as the first.
    weights = 1 / np.arange(1, len(vocabulary) + 1)
    shares = np.cumsum(weights / weights.sum())
    with path.open("wb") as file:
        for number in range(lines):
            left = (size - file.tell()) // (lines - number) - len(_line(number, "")) - 1
            count = left // (len(vocabulary[0]) + 1) + 1
            places = np.searchsorted(shares, generator.random(count))
            text = " ".join(vocabulary[np.minimum(places, len(vocabulary) - 1)])
            file.write(_line(number, text[:left].ljust(left, "a")) + b"\n")


def _line(number: int, text: str) -> bytes:
    return json.dumps(
        {
            "custom_id": f"request-{number:05d}",
            "method": "POST",
            "url": "/v1/chat/completions",
            "body": {
                "model": MODEL,
                "messages": [
                    {"role": "system", "content": SYSTEM},
                    {"role": "user", "content": text},
                ],
                "max_tokens": 64,
                "temperature": 0.6,
                "top_p": 0.95,
                "seed": 7,
                "chat_template_kwargs": {"enable_thinking": False},
            },
        }
    ).encode()
