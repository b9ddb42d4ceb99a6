"""The body of ``POST /batches``, checked field by field with the contract's codes."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, NoReturn

from gateway.errors import GatewayError
from gateway.graders.names import GRADERS
from gateway.intake.reading import read_json
from gateway.intake.refusal import LineRefused
from gateway.ledger.money import MoneyError, nano_of

ENDPOINTS = ("/v1/chat/completions", "/v1/completions")
MIN_HOURS, MAX_HOURS = 24, 168
MAX_PAIRS, MAX_KEY, MAX_VALUE = 16, 64, 512

_WINDOW = re.compile(r"([0-9]{1,3})h", re.ASCII)
_IDEMPOTENCY_KEY = re.compile(r"[A-Za-z0-9_.:-]{16,80}", re.ASCII)
_JSON_FAULTS = {
    "too_deep": "The request body nests too deep.",
    "duplicate_key": "The request body names one key twice in an object.",
    "invalid_unicode": "The request body is not valid Unicode.",
}


@dataclass(frozen=True)
class CreateBatch:
    """A well-formed order, apart from what it reads.

    Attributes:
        metadata: as given; None where it was null or absent.
        grader: the grader of an evaluation, or None.
        digest: SHA-256 (hex) of the parsed body, by which idempotent replays are told apart.
        model_hint: names the model where neither the metadata nor the input does; or None.
    """

    endpoint: str
    completion_window_hours: int
    metadata: Mapping[str, str] | None
    grader: str | None
    digest: str
    model_hint: str | None = None


def read_object(body: bytes) -> dict[str, Any]:
    """Return a request body that must be one JSON object.

    Raises:
        GatewayError: 400 ``invalid_request``.
    """
    try:
        value = read_json(body)
    except LineRefused as error:
        message = _JSON_FAULTS.get(error.code, "The request body is not valid JSON.")
        raise GatewayError(400, "invalid_request", message) from error
    if not isinstance(value, dict):
        raise GatewayError(400, "invalid_request", "The request body must be a JSON object.")
    return value


def parse_create(body: Mapping[str, Any]) -> CreateBatch:
    """Check the fields of a create body; members that are not known are ignored.

    Raises:
        GatewayError: 400 with the code of the first field that is out of its range.
    """
    endpoint = body.get("endpoint")
    if endpoint not in ENDPOINTS:
        _refuse("invalid_endpoint", f"endpoint must be {' or '.join(ENDPOINTS)}.", "endpoint")
    hours = parse_hours(body.get("completion_window"))
    metadata = _metadata(body.get("metadata"))
    grader = _grader(metadata or {})
    return CreateBatch(endpoint, hours, metadata, grader, digest_of(body))


def parse_file_id(body: Mapping[str, Any]) -> str:
    """Return the input file of a create body, known or not.

    Raises:
        GatewayError: 400 ``invalid_request``.
    """
    file_id = body.get("input_file_id")
    if not isinstance(file_id, str):
        _refuse("invalid_request", "input_file_id must be the id of a file.", "input_file_id")
    return file_id


def parse_openrelay_create(body: Mapping[str, Any]) -> CreateBatch:
    """Check the fields of an OpenRelay create body: those of ``parse_create``, and its ``model``.

    Raises:
        GatewayError: as ``parse_create``, and 400 ``invalid_model``.
    """
    wanted = parse_create(body)
    model = body.get("model")
    if model is not None and not isinstance(model, str):
        _refuse("invalid_model", "model must be a text, a repository in org/name form.", "model")
    return replace(wanted, model_hint=model)


def has_inline_requests(body: Mapping[str, Any], requests: int | None) -> bool:
    """Say whether an OpenRelay create body carries its requests; else it names a file.

    Args:
        requests: how many it carries; None where ``requests`` is no list.

    Raises:
        GatewayError: 400 ``invalid_request``: it does both or neither, or the list is none.
    """
    if body.get("requests") is None:
        return False
    if body.get("input_file_id") is not None:
        _refuse("invalid_request", "Give input_file_id or requests, not both.", "requests")
    if not requests:
        _refuse("invalid_request", "requests must be a list of 1 to 50,000 requests.", "requests")
    return True


def parse_idempotency_key(values: list[str]) -> str | None:
    """Return the Idempotency-Key of a request from all headers of that name, or None.

    Raises:
        GatewayError: 400 ``invalid_idempotency_key``.
    """
    if not values:
        return None
    if len(values) > 1 or _IDEMPOTENCY_KEY.fullmatch(values[0]) is None:
        _refuse(
            "invalid_idempotency_key",
            "Idempotency-Key must be 16 to 80 letters, digits, underscores, periods, colons or "
            "hyphens, sent once.",
            "Idempotency-Key",
        )
    return values[0]


def parse_hours(window: Any) -> int:
    """Return the hours of a completion window.

    Raises:
        GatewayError: 400 ``invalid_completion_window``.
    """
    match = _WINDOW.fullmatch(window) if isinstance(window, str) else None
    if match is None or not MIN_HOURS <= int(match[1]) <= MAX_HOURS:
        _refuse(
            "invalid_completion_window",
            f'completion_window must be "{MIN_HOURS}h" to "{MAX_HOURS}h".',
            "completion_window",
        )
    return int(match[1])


def _metadata(metadata: Any) -> dict[str, str] | None:
    if metadata is None:
        return None
    if not isinstance(metadata, dict):
        _refuse_metadata("metadata must be an object of strings, or null.")
    if len(metadata) > MAX_PAIRS:
        _refuse_metadata(f"metadata has {len(metadata)} pairs; {MAX_PAIRS} are allowed.")
    for key, value in metadata.items():
        if len(key) > MAX_KEY:
            _refuse_metadata(f"A metadata key has {len(key)} characters; {MAX_KEY} are allowed.")
        if not isinstance(value, str):
            _refuse_metadata("metadata values must be strings.", key)
        if len(value) > MAX_VALUE:
            _refuse_metadata(
                f"A metadata value has {len(value)} characters; {MAX_VALUE} are allowed.", key
            )
        if "\0" in key or "\0" in value:
            _refuse_metadata("metadata must not contain U+0000.")
    price = metadata.get("max_price_usd")
    if price is not None:
        try:
            nano_of(price)
        except MoneyError as error:
            _refuse_metadata(f"max_price_usd: {error}.", "max_price_usd")
    return metadata


def _grader(metadata: Mapping[str, str]) -> str | None:
    grader = metadata.get("reliquary_grader")
    if grader is not None and grader not in GRADERS:
        _refuse(
            "grader_unknown",
            f"reliquary_grader must be {' or '.join(GRADERS)}.",
            "metadata.reliquary_grader",
        )
    return grader


def digest_of(body: Mapping[str, Any]) -> str:
    """Return the SHA-256 (hex) of a parsed body, by which idempotent replays are told apart."""
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return sha256(text.encode("ascii")).hexdigest()


def _refuse_metadata(message: str, key: str | None = None) -> NoReturn:
    _refuse("invalid_metadata", message, "metadata" if key is None else f"metadata.{key[:64]}")


def _refuse(code: str, message: str, param: str) -> NoReturn:
    raise GatewayError(400, code, message, param)
