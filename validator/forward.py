"""The forward of an audit: what the validator asks of a model, whoever computes it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from protocol.messages import Stack

if TYPE_CHECKING:
    from torch import Tensor

# Classes whose forward here the tests compare with transformers' own, one by one.
ARCHITECTURES = (
    "LlamaForCausalLM",
    "MistralForCausalLM",
    "Qwen2ForCausalLM",
    "Qwen3ForCausalLM",
    "Qwen3MoeForCausalLM",
    "Qwen3_5ForCausalLM",
    "Qwen3_5ForConditionalGeneration",
)


class ForwardFailed(Exception):
    """The forward broke down (memory, device, kernel): the validator's own fault."""


class UnsupportedModel(Exception):
    """This form of the forward does not compute the model as its authors define it."""


@contextmanager
def failures() -> Iterator[None]:
    """Turn what is raised when memory or a device gives out into ``ForwardFailed``."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        raise ForwardFailed(f"{type(error).__name__}: {str(error)[:150]}") from error


@dataclass(frozen=True, slots=True)
class Claim:
    """One sample as it is audited: which prompt it continues, and the ids claimed for it."""

    prompt: int
    ids: Sequence[int]


@dataclass(frozen=True, slots=True)
class Rows:
    """Final hidden states that precede completion tokens.

    ``hidden`` is what ``Forward.logits`` takes, row r of which predicts token ``places[r]`` (0 is
    the first completion token) of claim ``claims[r]``. ``hidden[a:b]`` are rows a to b.
    """

    hidden: Any
    claims: NDArray[np.int64]
    places: NDArray[np.int64]


class Forward(Protocol):
    """A loaded model that teacher-forces claims."""

    @property
    def vocabulary_size(self) -> int:
        """The number of logits in a row, padding rows of the head included."""
        ...

    @property
    def threads(self) -> int:
        """Threads that it computes on where it uses the processor; the judging takes as many."""
        ...

    def stack(self) -> Stack:
        """Return what computes here, for verdicts and announcements."""
        ...

    def hidden(
        self, prompts: Sequence[Sequence[int]], claims: Sequence[Claim], pack_tokens: int
    ) -> Iterator[Rows]:
        """Yield the rows of every token of every claim, in batches of at most ``pack_tokens``.

        A prompt that several claims share is computed once where that saves work. Every claim has
        at least one id, and all ids are below ``vocabulary_size``.

        Raises:
            ForwardFailed: memory or the device gave out; rows yielded before stay valid.
        """
        ...

    def logits(self, hidden: Any) -> "Tensor":
        """Return the logits of rows, float32 [rows, vocabulary_size], where the model lies.

        The caller bounds the rows.

        Raises:
            ForwardFailed: memory or the device gave out.
        """
        ...
