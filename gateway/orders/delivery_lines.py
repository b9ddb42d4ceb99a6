"""The lines of a delivery: output, errors and receipts. Pure; ASCII JSON, one object a line.

All ids derive from the order and the line, so that an export that is made again gives the very same
bytes.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Protocol

from gateway.orders.evidence import Delivered
from gateway.store.tables import Order

CHAT = "/v1/chat/completions"
_ENCODER = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"))


class Decoder(Protocol):
    """The part of ``tokenizers.Tokenizer`` that is needed."""

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """Return the text of ``ids``."""
        ...


@dataclass(frozen=True)
class Line:
    """One usable line of an order.

    Attributes:
        index: counts the usable lines from 0.
        prompt_tokens: the length of its prompt in ids.
        samples: its verified samples by choice; fewer than ``n`` where some are missing.
    """

    index: int
    custom_id: str
    prompt_tokens: int
    samples: Mapping[int, Delivered]


def output_line(order: Order, line: Line, decoder: Decoder, end_ids: frozenset[int]) -> bytes:
    """Return a line of the output file: OpenAI's batch output, the samples as its choices."""
    chat = order.endpoint == CHAT
    choices = []
    completion_tokens = 0
    for choice, sample in sorted(line.samples.items()):
        ids = sample.token_ids
        completion_tokens += len(ids)
        stopped = ids[-1] in end_ids
        text = decoder.decode(ids[:-1] if stopped else ids, skip_special_tokens=True)
        reason = "stop" if stopped else "length"
        choices.append(_choice(choice, text, reason, chat=chat))
    body = {
        "id": f"{'chatcmpl' if chat else 'cmpl'}-{_id(order, 'completion', line.index)}",
        "object": "chat.completion" if chat else "text_completion",
        "created": order.created_at_ms // 1000,
        "model": order.model,
        "choices": choices,
        "usage": {
            "prompt_tokens": line.prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": line.prompt_tokens + completion_tokens,
        },
    }
    return _line(
        {
            "id": f"batch_req_{_id(order, 'line', line.index)}",
            "custom_id": line.custom_id,
            "response": {
                "status_code": 200,
                "request_id": f"req_{_id(order, 'request', line.index)}",
                "body": body,
            },
            "error": None,
        }
    )


def refused_line(order: Order, refused: Mapping[str, Any]) -> bytes:
    """Return the error line of a refused line, from its entry in ``refused.jsonl``."""
    return _line(
        {
            "id": f"batch_req_{_id(order, 'refused', refused['line'])}",
            "custom_id": refused["custom_id"],
            "response": None,
            "error": refused["error"],
            "line": refused["line"],
        }
    )


def missing_line(order: Order, line: Line) -> bytes:
    """Return the error line of a line that is short of samples."""
    message = f"{len(line.samples)} of {order.n} samples delivered"
    return _line(
        {
            "id": f"batch_req_{_id(order, 'line', line.index)}",
            "custom_id": line.custom_id,
            "prompt_index": line.index,
            "response": None,
            "error": {"code": "missing_samples", "message": message},
        }
    )


def receipt_lines(line: Line) -> bytes:
    """Return the receipts of a line's samples."""
    receipts = (
        sample.receipt(line.custom_id, line.index, choice)
        for choice, sample in sorted(line.samples.items())
    )
    texts = (receipt.model_dump_json(ensure_ascii=True) for receipt in receipts)
    return "".join(f"{text}\n" for text in texts).encode("ascii")


def _choice(index: int, text: str, reason: str, *, chat: bool) -> dict[str, Any]:
    if chat:
        message = {"role": "assistant", "content": text}
        return {"index": index, "message": message, "logprobs": None, "finish_reason": reason}
    return {"index": index, "text": text, "logprobs": None, "finish_reason": reason}


def _id(order: Order, kind: str, number: int) -> str:
    return sha256(f"{order.id}/{kind}/{number}".encode("ascii")).hexdigest()[:32]


def _line(value: dict[str, Any]) -> bytes:
    return _ENCODER.encode(value).encode("ascii") + b"\n"
