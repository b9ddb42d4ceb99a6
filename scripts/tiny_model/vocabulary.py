"""The tiny model's tokenizer: byte-level BPE over the project's own text, ChatML added tokens."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from scripts.tiny_model.corpus import Example, examples

TEMPLATE = Path(__file__).parent / "template.jinja"
SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
ADDED_TOKENS = ("<think>", "</think>", "<tool_call>", "</tool_call>")

# Letters with the space before them, digits one by one, runs of marks, and white space.
WORDS = r" ?\p{L}[\p{L}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


def _texts(seed: int, count: int) -> Iterator[str]:
    for example in islice(examples(seed), count):
        for message in example.messages:
            yield message["content"]
        yield example.prefix + example.answer
        if example.thought is not None:
            yield example.thought


def make_tokenizer(vocabulary: int, seed: int, examples_read: int) -> PreTrainedTokenizerFast:
    """Train a byte-level BPE of ``vocabulary`` ids, added tokens included.

    All 256 bytes are in the alphabet, so any text can be encoded.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(WORDS), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary - len(SPECIAL_TOKENS) - len(ADDED_TOKENS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_texts(seed, examples_read), trainer)
    tokenizer.add_special_tokens(list(SPECIAL_TOKENS))
    tokenizer.add_tokens(list(ADDED_TOKENS))
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",  # noqa: S106 - a token of text, no secret
        pad_token="<|endoftext|>",  # noqa: S106
        chat_template=TEMPLATE.read_text(),
        model_max_length=32_768,
        clean_up_tokenization_spaces=False,
    )


def encode_example(
    tokenizer: PreTrainedTokenizerFast, example: Example
) -> tuple[list[int], list[int]]:
    """Return the ids of an example's prompt and of what the model should write, end included."""
    if not example.messages:
        answer = tokenizer.encode(example.answer + "<|endoftext|>")
        return tokenizer.encode(example.prefix), answer
    tools: list[Any] | None = example.tools
    prompt = tokenizer.apply_chat_template(
        example.messages,
        tools=tools,
        tokenize=False,
        add_generation_prompt=True,
        enable_thinking=example.thought is not None,
    )
    thought = "" if example.thought is None else f"<think>\n{example.thought}\n</think>\n\n"
    answer = tokenizer.encode(thought + example.answer + "<|im_end|>")
    assert isinstance(prompt, str)
    return tokenizer.encode(prompt), answer
