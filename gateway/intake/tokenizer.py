"""A model's own tokenizer and chat templates, read from the files of its pinned commit."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from tokenizers import Tokenizer

from gateway.intake.template import ChatTemplate, TemplateUnusable
from gateway.intake.template_files import (
    DEFAULT,
    TOOL_USE,
    UnreadableFile,
    read_object,
    template_sources,
)

_SPECIAL_TOKENS = (
    "bos_token",
    "eos_token",
    "unk_token",
    "sep_token",
    "pad_token",
    "cls_token",
    "mask_token",
)


class TokenizerUnusable(Exception):
    """The repository's tokenizer files cannot be used; the message says which and why."""


class ModelTokenizer:
    """Text to ids for one model commit.

    Args:
        folder: the commit's files: ``tokenizer.json``, ``tokenizer_config.json`` and the chat
            templates that the model has (``template_files``).

    Raises:
        TokenizerUnusable: a file is missing or broken, or a template does not compile.
    """

    def __init__(self, folder: Path) -> None:
        self._tokenizer = _load(folder)
        try:
            config = read_object(folder / "tokenizer_config.json")
            sources = template_sources(folder, config)
        except UnreadableFile as error:
            raise TokenizerUnusable(str(error)) from None
        special_tokens = _special_tokens(config)
        self._templates: dict[str, ChatTemplate] = {}
        for name, source in sources.items():
            try:
                self._templates[name] = ChatTemplate(source, special_tokens)
            except TemplateUnusable as error:
                raise TokenizerUnusable(f"chat template: {error}") from None

    def template(self, with_tools: bool) -> ChatTemplate | None:
        """The template for a conversation; None where the model has none."""
        if with_tools and TOOL_USE in self._templates:
            return self._templates[TOOL_USE]
        return self._templates.get(DEFAULT)

    def encode(self, texts: Sequence[str], *, special_tokens: bool) -> list[list[int]]:
        """The ids of each text.

        Args:
            texts: whole prompts.
            special_tokens: add those that the tokenizer is configured to add; false for rendered
                conversations, whose template writes its own.
        """
        encodings = self._tokenizer.encode_batch_fast(
            list(texts), add_special_tokens=special_tokens
        )
        return [encoding.ids for encoding in encodings]


@lru_cache(maxsize=2)
def load_tokenizer(folder: Path) -> ModelTokenizer:
    """The tokenizer of a commit's folder, which never changes, so the last ones are kept.

    Raises:
        TokenizerUnusable: see ``ModelTokenizer``.
    """
    return ModelTokenizer(folder)


def _load(folder: Path) -> Tokenizer:
    path = folder / "tokenizer.json"
    if not path.is_file():
        raise TokenizerUnusable("it has no tokenizer.json")
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # noqa: BLE001 - the library raises Exception itself
        raise TokenizerUnusable(f"tokenizer.json cannot be read: {error}") from None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _special_tokens(config: Mapping[str, object]) -> dict[str, str]:
    """The named special tokens; each is a text, or an object whose ``content`` is the text."""
    tokens: dict[str, str] = {}
    for name in _SPECIAL_TOKENS:
        value = config.get(name)
        text = value.get("content") if isinstance(value, dict) else value
        if isinstance(text, str):
            tokens[name] = text
    return tokens
