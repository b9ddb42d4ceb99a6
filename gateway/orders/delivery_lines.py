"""The lines of a delivery's output and errors. Pure; ASCII JSON, one object a line.

All ids derive from the order and the line, so that an export that is made again gives the very same
bytes.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Generic, Protocol, TypeVar

CHAT = "/v1/chat/completions"
_ENCODER = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"))


class Decoder(Protocol):
    """The part of ``tokenizers.Tokenizer`` that is needed."""

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """Return the text of ``ids``."""
        ...


class Sample(Protocol):
    """The part of a delivered sample that its text is made from."""

    @property
    def token_ids(self) -> Sequence[int]:
        """Its ids, the end id included; at least one."""
        ...


S_co = TypeVar("S_co", bound=Sample, covariant=True)


@dataclass(frozen=True)
class Heading:
    """What all lines of a delivery share; ``created_at`` in Unix seconds."""

    order_id: str
    endpoint: str
    created_at: int
    model: str
    n: int
    end_ids: frozenset[int]


@dataclass(frozen=True)
class Line(Generic[S_co]):
    """One usable line of an order.

    Attributes:
        index: counts the usable lines from 0.
        prompt_tokens: the length of its prompt in ids.
        samples: its verified samples by choice; fewer than ``n`` where some are missing.
        reference: what its answers are graded against; None where the order has no grader.
        grades: of its samples by choice, where the order has a grader; None for one that could not
            be graded.
    """

    index: int
    custom_id: str
    prompt_tokens: int
    samples: Mapping[int, S_co]
    reference: str | None = None
    grades: Mapping[int, bool | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Answer:
    """What a sample says, and why it ended: ``stop`` or ``length``."""

    text: str
    finish_reason: str


def answer_of(heading: Heading, ids: Sequence[int], decoder: Decoder) -> Answer:
    """Return the answer that a sample's ids are; the id that ended it is no part of the text."""
    stopped = ids[-1] in heading.end_ids
    text = decoder.decode(ids[:-1] if stopped else ids, skip_special_tokens=True)
    return Answer(text, "stop" if stopped else "length")


def output_line(heading: Heading, line: Line[Sample], decoder: Decoder) -> bytes:
    """Return a line of the output file: OpenAI's batch output, the samples as its choices."""
    chat = heading.endpoint == CHAT
    choices = []
    completion_tokens = 0
    for choice, sample in sorted(line.samples.items()):
        ids = sample.token_ids
        completion_tokens += len(ids)
        choices.append(_choice(choice, answer_of(heading, ids, decoder), chat=chat))
    body = {
        "id": f"{'chatcmpl' if chat else 'cmpl'}-{_id(heading, 'completion', line.index)}",
        "object": "chat.completion" if chat else "text_completion",
        "created": heading.created_at,
        "model": heading.model,
        "choices": choices,
        "usage": {
            "prompt_tokens": line.prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": line.prompt_tokens + completion_tokens,
        },
    }
    return _line(
        {
            "id": f"batch_req_{_id(heading, 'line', line.index)}",
            "custom_id": line.custom_id,
            "response": {
                "status_code": 200,
                "request_id": f"req_{_id(heading, 'request', line.index)}",
                "body": body,
            },
            "error": None,
        }
    )


def refused_line(heading: Heading, refused: Mapping[str, Any]) -> bytes:
    """Return the error line of a refused line, from its entry in ``refused.jsonl``."""
    return _line(
        {
            "id": f"batch_req_{_id(heading, 'refused', refused['line'])}",
            "custom_id": refused["custom_id"],
            "response": None,
            "error": refused["error"],
            "line": refused["line"],
        }
    )


def missing_line(heading: Heading, line: Line[Sample]) -> bytes:
    """Return the error line of a line that is short of samples."""
    message = f"{len(line.samples)} of {heading.n} samples delivered"
    return _line(
        {
            "id": f"batch_req_{_id(heading, 'line', line.index)}",
            "custom_id": line.custom_id,
            "prompt_index": line.index,
            "response": None,
            "error": {"code": "missing_samples", "message": message},
        }
    )


def _choice(index: int, answer: Answer, *, chat: bool) -> dict[str, Any]:
    said: dict[str, Any] = {"text": answer.text}
    if chat:
        said = {"message": {"role": "assistant", "content": answer.text}}
    return {"index": index, **said, "logprobs": None, "finish_reason": answer.finish_reason}


def _id(heading: Heading, kind: str, number: int) -> str:
    return sha256(f"{heading.order_id}/{kind}/{number}".encode("ascii")).hexdigest()[:32]


def _line(value: dict[str, Any]) -> bytes:
    return _ENCODER.encode(value).encode("ascii") + b"\n"
