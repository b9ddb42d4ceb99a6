"""A model small enough to make in a test: a real tokenizer and template, weights of no use.

The gateway reads a model's text files alone, so tests of it need no more.
"""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import huggingface_hub.constants
import numpy as np
import pytest
from safetensors.numpy import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

from scripts.hub import HubServer, publish

MODEL = "reliquary/small"
SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
_TEMPLATE = Path(__file__).parents[2] / "scripts" / "tiny_model" / "template.jinja"


def write_small_model(folder: Path, context_length: int = 32_768) -> Tokenizer:
    """Write the files of a Qwen3 repository whose weights are one number; return its tokenizer."""
    folder.mkdir(parents=True)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(["hello world system user assistant"] * 50, trainer)
    tokenizer.add_special_tokens([AddedToken(text, special=True) for text in SPECIALS])
    tokenizer.save(str(folder / "tokenizer.json"))
    end = tokenizer.token_to_id("<|im_end|>")
    files = {
        "config.json": {
            "architectures": ["Qwen3ForCausalLM"],
            "model_type": "qwen3",
            "vocab_size": tokenizer.get_vocab_size(),
            "max_position_embeddings": context_length,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 16,
            "dtype": "float32",
        },
        "generation_config.json": {"eos_token_id": [end]},
        "tokenizer_config.json": {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"},
    }
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content))
    shutil.copy(_TEMPLATE, folder / "chat_template.jinja")
    save_file({"weight": np.zeros(1, np.float32)}, folder / "model.safetensors")
    return tokenizer


@contextmanager
def small_model_hub(folder: Path) -> Iterator[str]:
    """Serve the small model from a hub that this process's hub client asks; yield its commit."""
    write_small_model(folder / "files")
    commit = publish(folder / "hub", MODEL, folder / "files")
    with HubServer(folder / "hub") as hub, pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_ENDPOINT", hub.url)
        patch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(folder / "cache"))
        yield commit
