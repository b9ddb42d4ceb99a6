"""A small random model, and a generator that draws from it with the reference, token by token."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, Qwen3Config, Qwen3ForCausalLM

from protocol.documents import work_keys
from protocol.draw.reference import draw
from protocol.messages import SampleReference, Work
from protocol.sampling import Sampling
from validator.transformers_forward import TransformersForward, load

VOCABULARY = 300
# Frequent enough that answers of this model end.
END_IDS = [290, 291, 292, 293]

MakeWork = Callable[..., Work]
Generate = Callable[[Work], list[list[int]]]


@pytest.fixture(scope="session")
def random_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a random Qwen3 whose logits are spread as those of real models are."""
    torch.manual_seed(11)
    config = Qwen3Config(
        vocab_size=VOCABULARY + 4,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=1_024,
        initializer_range=0.35,
        tie_word_embeddings=True,
        eos_token_id=END_IDS,
    )
    folder = tmp_path_factory.mktemp("random-model")
    Qwen3ForCausalLM(config).save_pretrained(folder)
    return folder


@pytest.fixture
def forward(random_model: Path) -> TransformersForward:
    """Return the random model in float32, freshly loaded: a test may damage it."""
    return load(random_model, "float32")


@pytest.fixture(scope="session")
def make_work() -> MakeWork:
    """Return a function that makes a unit of a few prompts with some samples each."""

    def made(prompts: int = 3, per_prompt: int = 2, seed: int = 7, **sampling: Any) -> Work:
        random = np.random.default_rng(2)
        return Work(
            unit_id="00000000-0000-7000-8000-000000000001",
            model="reliquary/random",
            revision="a" * 40,
            seed=seed,
            sampling=Sampling(**{"max_tokens": 120, **sampling}),
            vocabulary_size=VOCABULARY,
            end_ids=END_IDS,
            prompts=[random.integers(0, 280, 5 + 9 * k).tolist() for k in range(prompts)],
            samples=[
                SampleReference(prompt=prompt, sample_index=index)
                for prompt in range(prompts)
                for index in range(per_prompt)
            ],
        )

    return made


@pytest.fixture(scope="session")
def generate(random_model: Path) -> Generate:
    """Return a function that generates a unit honestly, in float32 and with a plain cache."""
    model = AutoModelForCausalLM.from_pretrained(random_model, dtype="float32")

    @cache
    def generated_once(text: str) -> list[list[int]]:
        work, samples = Work.model_validate_json(text), []
        for key, sample in zip(work_keys(work), work.samples, strict=True):
            ids: list[int] = []
            fed, kept = work.prompts[sample.prompt], None
            while len(ids) < work.sampling.max_tokens and not (ids and ids[-1] in work.end_ids):
                with torch.inference_mode():
                    output = model(torch.tensor([fed]), past_key_values=kept, use_cache=True)
                logits = output.logits[0, -1, : work.vocabulary_size].numpy()
                fed, kept = [draw(logits, key, len(ids), work.sampling)], output.past_key_values
                ids += fed
            samples.append(ids)
        return samples

    def generated(work: Work) -> list[list[int]]:
        return [list(ids) for ids in generated_once(work.model_dump_json())]

    return generated
