"""Qwen3 models of any size with random weights and the tiny model's tokenizer, for measuring."""

from pathlib import Path
from typing import Literal

import torch
from transformers import AutoTokenizer, Qwen3ForCausalLM

from scripts.tiny_model.architecture import make_config, save

Architecture = Literal["Qwen3ForCausalLM"]
WEIGHTS = Path(__file__).parent / "weights"


def make_random(
    architecture: Architecture,
    folder: Path,
    *,
    hidden: int,
    layers: int,
    vocabulary: int,
    head_dim: int = 64,
    seed: int = 0,
) -> None:
    """Write a model of random weights in bfloat16 to ``folder``, as a repository's files.

    The embedding may have more rows than the tokenizer has ids, as padded vocabularies do; the
    draw's vocabulary stays the tokenizer's.

    Args:
        architecture: the model's class; only Qwen3 is made.
        folder: made where it is missing.
        hidden: width of the residual stream, a multiple of twice ``head_dim``.
        layers: number of decoder layers.
        vocabulary: rows of the embedding, at least the tokenizer's ids.
        head_dim: width of a head.
        seed: of the weights.

    Raises:
        ValueError: a size does not fit.
    """
    tokenizer = AutoTokenizer.from_pretrained(WEIGHTS)
    if architecture != "Qwen3ForCausalLM":
        raise ValueError(f"no random {architecture} is made, only Qwen3ForCausalLM")
    if hidden % (2 * head_dim):
        raise ValueError(f"hidden must be a multiple of {2 * head_dim}, not {hidden}")
    if vocabulary < len(tokenizer):
        raise ValueError(f"vocabulary must be at least {len(tokenizer)}, not {vocabulary}")
    config = make_config(
        tokenizer, hidden=hidden, layers=layers, head_dim=head_dim, vocabulary=vocabulary
    )
    torch.manual_seed(seed)
    save(Qwen3ForCausalLM(config), tokenizer, folder)
