"""The tiny model's shape and the files that go with its weights."""

from copy import deepcopy
from pathlib import Path

import torch
from transformers import (
    GenerationConfig,
    PreTrainedTokenizerFast,
    Qwen3_5ForCausalLM,
    Qwen3_5ForConditionalGeneration,
    Qwen3Config,
    Qwen3ForCausalLM,
)

CONTEXT_LENGTH = 32_768
TinyModel = Qwen3ForCausalLM | Qwen3_5ForCausalLM | Qwen3_5ForConditionalGeneration


def make_config(
    tokenizer: PreTrainedTokenizerFast,
    *,
    hidden: int,
    layers: int,
    head_dim: int,
    vocabulary: int,
) -> Qwen3Config:
    """Return the configuration of a Qwen3 with ``hidden / head_dim`` query heads.

    Args:
        tokenizer: gives the ids of the end and padding tokens.
        hidden: width of the residual stream, a multiple of twice ``head_dim``.
        layers: number of decoder layers.
        head_dim: width of a head; vLLM's CPU attention takes 32, 64 and 128 among others.
        vocabulary: rows of the embedding, at least the tokenizer's ids.
    """
    end, stop = end_ids(tokenizer)
    return Qwen3Config(
        vocab_size=vocabulary,
        hidden_size=hidden,
        intermediate_size=3 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=hidden // head_dim,
        num_key_value_heads=hidden // head_dim // 2,
        head_dim=head_dim,
        max_position_embeddings=CONTEXT_LENGTH,
        tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 10_000.0},
        bos_token_id=None,
        eos_token_id=end,
        pad_token_id=stop,
    )


def end_ids(tokenizer: PreTrainedTokenizerFast) -> tuple[int, int]:
    """Return the ids of ``<|im_end|>`` and ``<|endoftext|>``."""
    end, stop = (tokenizer.get_vocab()[name] for name in ("<|im_end|>", "<|endoftext|>"))
    return end, stop


def save(model: TinyModel, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Write weights in bfloat16, configuration, generation defaults and tokenizer to ``folder``.

    The model in memory keeps its precision.
    """
    end, stop = end_ids(tokenizer)
    folder.mkdir(parents=True, exist_ok=True)
    stored = deepcopy(model)
    # Not ``stored.to``, whose signature transformers hides from type checkers.
    torch.nn.Module.to(stored, torch.bfloat16)
    stored.generation_config = GenerationConfig(
        do_sample=True,
        temperature=0.6,
        top_k=20,
        top_p=0.95,
        eos_token_id=[end, stop],
        pad_token_id=stop,
    )
    stored.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
