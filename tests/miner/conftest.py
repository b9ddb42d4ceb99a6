"""The project's own tiny model, and units over it."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from protocol.messages import SampleReference, Work
from protocol.repository import ModelFacts, read_facts
from protocol.sampling import Sampling

MODEL, REVISION = "reliquary/tiny-qwen3", "a" * 40
QUESTIONS = (
    "What is the capital of France?",
    "What is 7 times 8?",
    "Tell me a short tale about a fox and a well.",
    "What is the opposite of cold?",
    "Name a colour.",
)

MakeWork = Callable[..., Work]


@pytest.fixture(scope="session")
def tiny_folder() -> Path:
    return Path(__file__).parents[2] / "scripts" / "tiny_model" / "weights"


@pytest.fixture(scope="session")
def tiny_facts(tiny_folder: Path) -> ModelFacts:
    return read_facts(tiny_folder, MODEL, REVISION)


@pytest.fixture(scope="session")
def chat_prompts(tiny_folder: Path) -> list[list[int]]:
    tokenizer = Tokenizer.from_file(str(tiny_folder / "tokenizer.json"))
    text = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
    return [
        tokenizer.encode(text.format(question), add_special_tokens=False).ids
        for question in QUESTIONS
    ]


@pytest.fixture(scope="session")
def make_work(tiny_facts: ModelFacts) -> MakeWork:
    """Return a maker of units: n samples spread over the prompts, under any sampling."""

    def make(prompts: list[list[int]], samples: int, *, seed: int = 7, **sampling: object) -> Work:
        return Work(
            unit_id="00000000-0000-7000-8000-000000000001",
            model=MODEL,
            revision=REVISION,
            seed=seed,
            sampling=Sampling.model_validate(sampling),
            vocabulary_size=tiny_facts.vocabulary_size,
            end_ids=list(tiny_facts.end_ids),
            prompts=prompts,
            samples=[
                SampleReference(prompt=number % len(prompts), sample_index=number // len(prompts))
                for number in range(samples)
            ],
        )

    return make
