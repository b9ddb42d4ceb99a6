"""What a model keeps of a sample: against the caches of transformers, and by hand."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import (
    DynamicCache,
    PreTrainedModel,
    Qwen3_5ForCausalLM,
    Qwen3_5TextConfig,
    Qwen3Config,
    Qwen3ForCausalLM,
)
from transformers.cache_utils import DynamicLayer, LinearAttentionLayer

from protocol.repository import Unsupported, cache_shape, read_cache_shape

SIZES: dict[str, Any] = {
    "vocab_size": 100,
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_hidden_layers": 5,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "bos_token_id": None,
    "eos_token_id": 1,
    "pad_token_id": None,
}
LINEAR: dict[str, Any] = {
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 24,
    "linear_conv_kernel_dim": 3,
}


def kept_bytes(model: PreTrainedModel, ids: int) -> int:
    cache = DynamicCache(config=model.config)
    with torch.inference_mode():
        model(torch.arange(ids)[None], past_key_values=cache, use_cache=True)
    tensors: list[torch.Tensor | None] = []
    for layer in cache.layers:
        if isinstance(layer, LinearAttentionLayer):
            tensors += [*layer.conv_states.values(), *layer.recurrent_states.values()]
        elif isinstance(layer, DynamicLayer):
            tensors += [layer.keys, layer.values]
    return sum(tensor.nbytes for tensor in tensors if tensor is not None)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("kind", ["qwen3", "qwen3_5"])
def test_it_is_what_transformers_keeps(kind: str, dtype: torch.dtype) -> None:
    sizes: dict[str, Any] = SIZES | LINEAR
    if kind == "qwen3":
        model = Qwen3ForCausalLM(Qwen3Config(**sizes))
    else:
        model = Qwen3_5ForCausalLM(Qwen3_5TextConfig(**sizes))
    torch.nn.Module.to(model, dtype)
    shape = cache_shape(model.config.to_dict(), dtype.itemsize)
    assert (shape.bytes_per_sample > 0) == (kind == "qwen3_5")
    for ids in (7, 70):
        assert shape.bytes_of(ids) == kept_bytes(model, ids)


def test_a_file_with_a_nested_configuration(tmp_path: Path) -> None:
    text = {**SIZES, **LINEAR, "full_attention_interval": 2}
    outer = {"num_hidden_layers": 27, "text_config": text}
    (tmp_path / "config.json").write_text(json.dumps(outer))
    shape = read_cache_shape(tmp_path, 2)
    assert shape.bytes_per_id == 2 * 2 * 2 * 16 * 2
    assert shape.bytes_per_sample == 3 * (4 * 8 * 24 * 4 + (2 * 2 * 8 + 4 * 24) * 3 * 2)


def test_heads_that_are_not_named_follow_from_the_width() -> None:
    config = {"num_hidden_layers": 3, "hidden_size": 64, "num_attention_heads": 4}
    assert cache_shape(config, 2).bytes_per_id == 3 * 2 * 4 * 16 * 2


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"num_hidden_layers": None}, "num_hidden_layers"),
        ({"num_hidden_layers": 0}, "num_hidden_layers"),
        ({"num_hidden_layers": 10**12}, "num_hidden_layers"),
        ({"num_key_value_heads": "2"}, "num_key_value_heads"),
        ({"head_dim": -1}, "head_dim"),
        ({"layer_types": ["full_attention"]}, "layer_types"),
        ({"layer_types": "full_attention"}, "layer_types"),
        ({**LINEAR, "linear_key_head_dim": None}, "linear_key_head_dim"),
        ({**LINEAR, "linear_conv_kernel_dim": True}, "linear_conv_kernel_dim"),
    ],
)
def test_what_is_missing_or_odd_is_named(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(Unsupported, match=named):
        cache_shape({**SIZES, **changes}, 2)
