"""The packed forward, and that by rows, against transformers' own, one sequence at a time."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    Qwen3_5Config,
    Qwen3_5ForConditionalGeneration,
)

from validator.forward import ARCHITECTURES, Claim, ForwardFailed, UnsupportedModel
from validator.transformers_forward import TransformersForward, load

SIZES = {
    "vocab_size": 300,
    "hidden_size": 64,
    "intermediate_size": 96,
    "moe_intermediate_size": 48,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "full_attention_interval": 2,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "max_position_embeddings": 512,
    "initializer_range": 0.3,
    "pad_token_id": None,
    "bos_token_id": None,
    "eos_token_id": 1,
}
MODEL_TYPES = {
    "LlamaForCausalLM": "llama",
    "MistralForCausalLM": "mistral",
    "Qwen2ForCausalLM": "qwen2",
    "Qwen3ForCausalLM": "qwen3",
    "Qwen3MoeForCausalLM": "qwen3_moe",
    "Qwen3_5ForCausalLM": "qwen3_5_text",
    "Qwen3_5ForConditionalGeneration": "qwen3_5",
}
VISION = {"depth": 1, "hidden_size": 32, "num_heads": 2, "out_hidden_size": 64, "patch_size": 4}

Save = Callable[..., Path]


@pytest.fixture
def save(tmp_path: Path) -> Save:
    """Return a function that saves a small random model of a type and returns its folder."""

    def saved(model_type: str, dtype: torch.dtype = torch.float32, **changes: object) -> Path:
        torch.manual_seed(5)
        model = random(model_type, {**SIZES, **changes}).to(dtype)
        model.save_pretrained(tmp_path / model_type)
        return tmp_path / model_type

    return saved


def random(model_type: str, sizes: dict[str, Any]) -> Any:
    if model_type == "qwen3_5":
        config = Qwen3_5Config(text_config=sizes, vision_config=VISION)
        return Qwen3_5ForConditionalGeneration(config)
    return AutoModelForCausalLM.from_config(AutoConfig.for_model(model_type, **sizes))


def case() -> tuple[list[list[int]], list[Claim]]:
    random = np.random.default_rng(3)
    lengths = [(1, [1, 30]), (40, [17]), (9, [25, 1, 60]), (75, [90, 4])]
    prompts = [random.integers(0, 300, prompt).tolist() for prompt, _ in lengths]
    claims = [
        Claim(number, random.integers(0, 300, size).tolist())
        for number, (_, sizes) in enumerate(lengths)
        for size in sizes
    ]
    return prompts, claims


def packed(forward: TransformersForward, budget: int) -> list[np.ndarray]:
    prompts, claims = case()
    logits = [np.full((len(claim.ids), forward.vocabulary_size), np.nan) for claim in claims]
    for rows in forward.hidden(prompts, claims, budget):
        found = forward.logits(rows.hidden).numpy()
        assert found.dtype == np.float32
        for row, claim, place in zip(found, rows.claims, rows.places, strict=True):
            logits[claim][place] = row
    return logits


def unpacked(folder: Path, dtype: str) -> list[np.ndarray]:
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation="eager")
    prompts, claims = case()
    with torch.inference_mode():
        return [
            model(torch.tensor([prompt + list(claim.ids)]))
            .logits[0, len(prompt) - 1 : -1]
            .float()
            .numpy()
            for claim in claims
            for prompt in [prompts[claim.prompt]]
        ]


def test_the_list_of_architectures_is_the_tested_one():
    assert tuple(MODEL_TYPES) == ARCHITECTURES


@pytest.mark.parametrize("model_type", MODEL_TYPES.values())
def test_packed_equals_unpacked(save: Save, model_type: str):
    folder = save(model_type)
    expected = unpacked(folder, "float32")
    forward = load(folder, "float32")
    for budget in (4_096, 130, 33):
        for found, due in zip(packed(forward, budget), expected, strict=True):
            np.testing.assert_allclose(found, due, atol=2e-3)


@pytest.mark.parametrize("budget", [4_096, 33])
def test_sliding_window(save: Save, budget: int):
    folder = save("mistral", sliding_window=11)
    full = unpacked(save("mistral", sliding_window=None), "float32")
    expected = unpacked(save("mistral", sliding_window=11), "float32")
    assert not np.allclose(full[-2], expected[-2], atol=0.1)
    for found, due in zip(packed(load(folder, "float32"), budget), expected, strict=True):
        np.testing.assert_allclose(found, due, atol=2e-3)


@pytest.mark.parametrize("model_type", ["qwen3", "qwen3_5_text", "qwen3_5"])
def test_own_dtype_is_the_default_and_the_head_is_float32(save: Save, model_type: str):
    folder = save(model_type, torch.bfloat16)
    forward = load(folder)
    stack = forward.stack()
    assert (stack.engine, stack.dtype, stack.head_dtype) == ("transformers", "bfloat16", "float32")
    expected = unpacked(folder, "float32")
    found = packed(forward, 4_096)
    error = [
        np.linalg.norm(a - b) / np.linalg.norm(b) for a, b in zip(found, expected, strict=True)
    ]
    # Far from float32's rounding, near what 8 bits of mantissa leave.
    assert 1e-4 < np.mean(error) < 0.05
    # Logits of a float32 head do not lie on bfloat16's grid.
    rounded = torch.from_numpy(found[0]).to(torch.bfloat16).double().numpy()
    assert (rounded != found[0]).mean() > 0.9


def test_attention_that_is_not_computed_here_is_refused(save: Save):
    with pytest.raises(UnsupportedModel, match="softcap"):
        load(save("gemma2", query_pre_attn_scalar=16), "float32")


def test_logits_that_are_more_than_a_linear_head_are_refused(save: Save):
    with pytest.raises(UnsupportedModel, match="off by"):
        load(save("cohere", logit_scale=0.5), "float32")


def test_layers_that_carry_a_state_are_refused(save: Save):
    with pytest.raises(UnsupportedModel):
        load(save("mamba", state_size=8), "float32")


def test_weights_that_are_missing_are_never_made_up(save: Save):
    folder = save("qwen3")
    tensors = load_file(folder / "model.safetensors")
    del tensors["model.layers.1.mlp.up_proj.weight"]
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(UnsupportedModel, match=r"layers\.1\.mlp\.up_proj"):
        load(folder, "float32")


def test_a_folder_without_weights_is_named(tmp_path: Path):
    with pytest.raises(ForwardFailed, match="cannot be loaded"):
        load(tmp_path)
