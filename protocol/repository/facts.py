"""What the network must know of a model, read from the files of its commit."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from protocol.repository.errors import Unsupported
from protocol.repository.json_files import is_id, positive, read_configs, read_object

ID_DIGITS = 10
DEFAULT_DTYPE = "float32"
ELEMENT_BYTES = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}


@dataclass(frozen=True)
class ModelFacts:
    """A model at a commit.

    Source: the forced draw, section 5.

    Args:
        model: ``org/name``.
        revision: the commit, 40 hex digits.
        architecture: the first of the configuration's ``architectures``.
        vocabulary_size: V of the draw: min(1 + highest tokenizer id, ``vocab_size``).
        end_ids: the ids that end a sample, in the repository's order.
        context_length: most positions of prompt and completion together.
        dtype: torch's name of the weights' type, such as ``bfloat16``.
    """

    model: str
    revision: str
    architecture: str
    vocabulary_size: int
    end_ids: tuple[int, ...]
    context_length: int
    dtype: str

    @property
    def element_bytes(self) -> int:
        """The bytes of one weight."""
        return ELEMENT_BYTES[self.dtype]


def read_architecture(folder: Path) -> str:
    """Return the first of the configuration's ``architectures``.

    Raises:
        Unsupported: ``config.json`` is missing, malformed or names none.
    """
    return _architecture(read_object(folder, "config.json"))


def read_facts(folder: Path, model: str, revision: str) -> ModelFacts:
    """Return the facts of the model whose files lie in ``folder``.

    Raises:
        Unsupported: a needed file or member is missing or malformed, or the weights are quantized.
    """
    config, text_config = read_configs(folder)
    if config.get("quantization_config") or text_config.get("quantization_config"):
        raise Unsupported(f"{model} has quantized weights; the draw needs the full ones")
    sources = (text_config, config)
    highest = _highest_id(folder)
    return ModelFacts(
        model=model,
        revision=revision,
        architecture=_architecture(config),
        vocabulary_size=min(1 + highest, positive(sources, "vocab_size")),
        end_ids=_end_ids(folder, config, text_config),
        context_length=positive(sources, "max_position_embeddings"),
        dtype=_dtype(sources),
    )


def _architecture(config: dict[str, Any]) -> str:
    names = config.get("architectures")
    if not isinstance(names, list) or not names or not isinstance(names[0], str):
        raise Unsupported("config.json names no architecture")
    return names[0]


def _dtype(sources: tuple[dict[str, Any], ...]) -> str:
    """Return the weights' type: ``dtype`` or its older name, float32 where none is given."""
    for source in sources:
        for name in ("dtype", "torch_dtype"):
            value = source.get(name)
            if isinstance(value, str):
                dtype = value.removeprefix("torch.")
                if dtype not in ELEMENT_BYTES:
                    raise Unsupported(
                        f"the weights are of type {dtype[:40]!r}, which is not served"
                    )
                return dtype
    return DEFAULT_DTYPE


def _end_ids(folder: Path, config: dict[str, Any], text_config: dict[str, Any]) -> tuple[int, ...]:
    """Return the first ``eos_token_id`` that names an id, without repeats."""
    generation: dict[str, Any] = {}
    if (folder / "generation_config.json").is_file():
        generation = read_object(folder, "generation_config.json")
    for source in (generation, config, text_config):
        value = source.get("eos_token_id")
        ids = value if isinstance(value, list) else [value]
        if value is not None and ids:
            whole = [one for one in ids if is_id(one)]
            if len(whole) < len(ids):
                raise Unsupported("eos_token_id must be an id or a list of ids")
            return tuple(dict.fromkeys(whole))
    raise Unsupported("the repository names no end-of-sequence id, so no sample could end")


def _highest_id(folder: Path) -> int:
    """Return the highest id of the tokenizer, added tokens included."""
    tokenizer = read_object(folder, "tokenizer.json")
    model = tokenizer.get("model")
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    if isinstance(vocabulary, dict):
        ids = list(vocabulary.values())
    elif isinstance(vocabulary, list):
        ids = [len(vocabulary) - 1]
    else:
        raise Unsupported("tokenizer.json has no vocabulary")
    added = tokenizer.get("added_tokens") or []
    if not isinstance(added, list):
        raise Unsupported("tokenizer.json: added_tokens must be a list")
    ids += [token.get("id") if isinstance(token, dict) else None for token in added]
    if (folder / "tokenizer_config.json").is_file():
        ids += _decoder_ids(read_object(folder, "tokenizer_config.json"))
    whole = [one for one in ids if is_id(one)]
    if not whole or len(whole) < len(ids):
        raise Unsupported("the tokenizer holds an id that is no whole number")
    return max(whole)


def _decoder_ids(tokenizer_config: dict[str, Any]) -> list[int | None]:
    """Return the ids of ``added_tokens_decoder``, which older repositories keep there alone."""
    decoder = tokenizer_config.get("added_tokens_decoder") or {}
    if not isinstance(decoder, dict):
        raise Unsupported("tokenizer_config.json: added_tokens_decoder must be an object")
    return [int(key) if key.isdecimal() and len(key) <= ID_DIGITS else None for key in decoder]
