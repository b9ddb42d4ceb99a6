"""A model of the usual size in everything that intake reads, made up: vocabulary and template."""

import json
import shutil
from itertools import islice, product
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from scripts import tiny_model

WORDS = 73_000
CONTEXT_LENGTH = 40_960
SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
# Outer and inner syllables share no consonant, so that a word has one way to be put together.
OUTER = [first + second for first in "bcdfghjklm" for second in "aeiou"]
INNER = [first + second for first in "npqrstvwxz" for second in "aeiou"]
_SPACE = "Ġ"
_TINY = Path(tiny_model.__file__).parent


def words() -> list[str]:
    """Return the words of the vocabulary: six letters each."""
    return ["".join(parts) for parts in islice(product(OUTER, INNER, OUTER), WORDS)]


def write_model(folder: Path) -> None:
    """Write the files of a Qwen3 repository, its weights of no use, into a new folder."""
    folder.mkdir(parents=True)
    tokenizer = _tokenizer()
    tokenizer.save(str(folder / "tokenizer.json"))
    files = {
        "config.json": {
            **json.loads((_TINY / "weights" / "config.json").read_text()),
            "vocab_size": tokenizer.get_vocab_size(),
            "max_position_embeddings": CONTEXT_LENGTH,
        },
        "generation_config.json": {"eos_token_id": [tokenizer.token_to_id("<|im_end|>")]},
        "tokenizer_config.json": {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"},
    }
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content))
    shutil.copy(_TINY / "template.jinja", folder / "chat_template.jinja")
    shutil.copy(_TINY / "weights" / "model.safetensors", folder)


def _tokenizer() -> Tokenizer:
    """Return a byte-level BPE tokenizer of some 151,000 tokens: each word with and without space.

    Text of such words takes the way through it that text of a language takes.
    """
    merges = [(part[0], part[1]) for part in (*OUTER, *INNER)]
    merges += product(OUTER, INNER)
    merges += [(word[:4], word[4:]) for word in words()]
    merges += [(_SPACE, word) for word in words()]
    tokens = sorted(pre_tokenizers.ByteLevel.alphabet()) + [left + right for left, right in merges]
    vocabulary = {token: at for at, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(text, special=True) for text in SPECIALS])
    return tokenizer
