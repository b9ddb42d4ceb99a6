"""Models of any size with random weights and the tiny model's tokenizer, for tests and figures."""

from pathlib import Path

import torch
from transformers import (
    AutoTokenizer,
    PreTrainedTokenizerFast,
    Qwen3_5Config,
    Qwen3_5ForCausalLM,
    Qwen3_5ForConditionalGeneration,
    Qwen3_5TextConfig,
    Qwen3ForCausalLM,
)

from scripts.tiny_model import WEIGHTS
from scripts.tiny_model.architecture import CONTEXT_LENGTH, TinyModel, end_ids, make_config, save

ARCHITECTURES = ("Qwen3ForCausalLM", "Qwen3_5ForCausalLM", "Qwen3_5ForConditionalGeneration")
# The vision tower of a model that is only ever asked for text: as small as it can be.
VISION = {
    "depth": 1,
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_heads": 2,
    "num_position_embeddings": 16,
    "patch_size": 4,
}


def make_random(
    architecture: str,
    folder: Path,
    *,
    hidden: int,
    layers: int,
    vocabulary: int,
    head_dim: int = 64,
    spread: float = 0.02,
    seed: int = 0,
) -> None:
    """Write a model of random weights in bfloat16 to ``folder``, as a repository's files.

    The embedding may have more rows than the tokenizer has ids, as padded vocabularies do; the
    draw's vocabulary stays the tokenizer's. Every fourth layer of a Qwen3.5 is full attention, the
    others are linear.

    Args:
        architecture: the model's class, one of ``ARCHITECTURES``.
        folder: made where it is missing.
        hidden: width of the residual stream, a multiple of twice ``head_dim``.
        layers: number of decoder layers.
        vocabulary: rows of the embedding, at least the tokenizer's ids.
        head_dim: width of a head.
        spread: standard deviation of the weights; the wider, the surer the model is of its ids.
        seed: of the weights.

    Raises:
        ValueError: the class is not made here, or a size does not fit.
    """
    tokenizer = AutoTokenizer.from_pretrained(WEIGHTS)
    if architecture not in ARCHITECTURES:
        raise ValueError(f"no random {architecture} is made, only {', '.join(ARCHITECTURES)}")
    if hidden % (2 * head_dim):
        raise ValueError(f"hidden must be a multiple of {2 * head_dim}, not {hidden}")
    if vocabulary < len(tokenizer):
        raise ValueError(f"vocabulary must be at least {len(tokenizer)}, not {vocabulary}")
    torch.manual_seed(seed)
    sizes = {"hidden": hidden, "layers": layers, "vocabulary": vocabulary, "head_dim": head_dim}
    save(_model(architecture, tokenizer, spread, **sizes), tokenizer, folder)


def _model(
    architecture: str, tokenizer: PreTrainedTokenizerFast, spread: float, **sizes: int
) -> TinyModel:
    """Return a model of random weights in float32."""
    if architecture == "Qwen3ForCausalLM":
        config = make_config(tokenizer, **sizes)
        config.initializer_range = spread
        return Qwen3ForCausalLM(config)
    text = _hybrid_config(tokenizer, spread, **sizes)
    if architecture == "Qwen3_5ForCausalLM":
        return Qwen3_5ForCausalLM(text)
    vision = {**VISION, "out_hidden_size": text.hidden_size}
    return Qwen3_5ForConditionalGeneration(
        Qwen3_5Config(text_config=text, vision_config=vision, tie_word_embeddings=True)
    )


def _hybrid_config(
    tokenizer: PreTrainedTokenizerFast,
    spread: float,
    *,
    hidden: int,
    layers: int,
    vocabulary: int,
    head_dim: int,
) -> Qwen3_5TextConfig:
    """Return the configuration of a Qwen3.5 language model; the arguments are ``make_random``'s."""
    end, stop = end_ids(tokenizer)
    heads = hidden // head_dim
    return Qwen3_5TextConfig(
        vocab_size=vocabulary,
        hidden_size=hidden,
        intermediate_size=3 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=heads // 2,
        head_dim=head_dim,
        linear_num_key_heads=heads // 2,
        linear_num_value_heads=heads,
        linear_key_head_dim=head_dim,
        linear_value_head_dim=head_dim,
        max_position_embeddings=CONTEXT_LENGTH,
        initializer_range=spread,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=end,
        pad_token_id=stop,
    )
