"""JSON's allowed, forbidden and open kinds at every entrance: lines, bodies, node messages."""

import asyncio
import inspect
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pydantic_core
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from json_kinds import ALLOWED, FORBIDDEN, OPEN
from live_gateway import LiveGateway, live_gateway
from pydantic import ValidationError

from gateway.api.create_batch import parse_create, read_object
from gateway.errors import GatewayError
from gateway.intake.inline import SplitBody, split_requests
from gateway.intake.reading import read_json
from gateway.intake.refusal import LineRefused
from protocol import messages
from protocol.messages import Message

CREATE = b'{"endpoint":"/v1/completions","completion_window":"24h","extra":'
READ = [*ALLOWED, *(text for text, code in OPEN if code is None)]
OPEN_TEXTS = [text for text, _ in OPEN]
REFUSED = [*FORBIDDEN, *(text for text, code in OPEN if code is not None)]


def shown(text: object) -> str:
    return ascii(text)[:40]


@pytest.mark.parametrize("text", READ, ids=shown)
def test_what_is_read(text: bytes) -> None:
    value = read_json(text)
    assert value == json.loads(text)
    assert parse_create(read_object(CREATE + text + b"}")).endpoint == "/v1/completions"
    assert read_json(b'[{"a":' + text + b"}]") == [{"a": value}]


@pytest.mark.parametrize("text", REFUSED, ids=shown)
def test_what_is_refused(text: bytes) -> None:
    expected = dict(OPEN).get(text)
    for placed in (text, b'{"a":' + text + b"}", b"[0," + text + b"]"):
        with pytest.raises(LineRefused) as refused:
            read_json(placed)
        if expected is not None:
            assert refused.value.code == expected
        assert refused.value.code in {
            "invalid_json", "invalid_unicode", "duplicate_key", "too_deep",
        }  # fmt: skip
    with pytest.raises(GatewayError) as body:
        read_object(CREATE + text + b"}")
    assert (body.value.status, body.value.code) == (400, "invalid_request")


def split(body: bytes) -> tuple[SplitBody | Any, bytes]:
    """What becomes of a create body that carries its requests."""
    with tempfile.TemporaryDirectory() as name:
        path, items = Path(name) / "body", Path(name) / "items"
        path.write_bytes(body)
        return split_requests(path, items), items.read_bytes()


@pytest.mark.parametrize("text", READ, ids=shown)
def test_requests_are_read_as_lines(text: bytes) -> None:
    found, items = split(b'{"requests":[' + text + b',{"method":"POST","url":"/"}]}')
    assert isinstance(found, SplitBody)
    assert found.requests == 2
    lines = items.split(b"\n")
    assert len(lines) == 3
    assert read_json(lines[0][1:]) == read_json(text)


@pytest.mark.parametrize("text", REFUSED, ids=shown)
def test_requests_that_are_none(text: bytes) -> None:
    """What is no JSON refuses the body; what intake alone refuses goes on to its own line."""
    found, items = split(b'{"requests":[' + text + b"]}")
    if not isinstance(found, SplitBody):
        assert (found.status, found.code) == (400, "invalid_request")
        return
    lines = items.split(b"\n")[:-1]
    assert len(lines) == found.requests
    refused = 0
    for line in lines:
        try:
            read_json(line[1:])
        except LineRefused:
            refused += 1
    # A comma may make two good requests of a text that is no single value.
    assert refused or b"," in text


MUTATED = st.tuples(
    st.sampled_from(READ), st.sampled_from([*ALLOWED, *FORBIDDEN]), st.integers(0, 99)
)


def spliced(parts: tuple[bytes, bytes, int]) -> bytes:
    """One text with a piece of another in it."""
    text, other, place = parts
    at = place % (len(text) + 1)
    return text[:at] + other[place % (len(other) + 1) :][:6] + text[at + place % 3 :]


@settings(max_examples=400)
@given(MUTATED.map(spliced))
def test_another_reader_agrees(text: bytes) -> None:
    """pydantic's parser shares no code with ours: it reads what we read, and as the same value."""
    try:
        ours: object = read_json(text)
    except LineRefused as refused:
        if refused.code == "invalid_json" and b"9" * 4_000 not in text and len(text) < 4_000:
            with pytest.raises(ValueError, match="at line"):
                pydantic_core.from_json(text, allow_inf_nan=False)
        return
    assert pydantic_core.from_json(text, allow_inf_nan=True) == ours


KINDS = [
    kind
    for _, kind in inspect.getmembers(messages, inspect.isclass)
    if issubclass(kind, Message) and kind is not Message
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_no_depth_breaks_a_node_message(kind: type[Message]) -> None:
    for name in kind.model_fields:
        for opening, closing in ((b"[", b"]"), (b'{"a":', b"}")):
            for levels in (190, 50_000):
                nested = opening * levels
                start = b'{"' + name.encode() + b'":' + nested
                for body in (start + b"0" + closing * levels + b"}", start, nested):
                    with pytest.raises(ValidationError) as refused:
                        kind.model_validate_json(body)
                    assert refused.value.errors(include_input=False, include_url=False)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveGateway]:
    with live_gateway(tmp_path_factory.mktemp("gateway")) as running:
        yield running


@pytest.mark.parametrize("dialect", ["openai", "openrelay"])
async def test_no_body_breaks_a_live_gateway(gateway: LiveGateway, dialect: str) -> None:
    base = gateway.base_url if dialect == "openai" else gateway.openrelay_url
    headers = gateway.auth | {"Content-Type": "application/json"}
    wrapped = [b'{"metadata":' + text + b"}" for text in OPEN_TEXTS]
    listed = [b'{"requests":[' + text + b"]}" for text in OPEN_TEXTS]
    async with httpx.AsyncClient(headers=headers, timeout=60) as client:
        turns = asyncio.Semaphore(20)

        async def post(body: bytes) -> tuple[int, Any]:
            async with turns:
                answer = await client.post(f"{base}/batches", content=body)
            return answer.status_code, answer.json()["error"]["code"]

        answers = await asyncio.gather(*map(post, [*READ, *REFUSED, *wrapped, *listed]))
    statuses = {status for status, _ in answers}
    assert statuses == {400}, set(answers)
    assert {code for _, code in answers} <= {
        "invalid_request", "invalid_endpoint", "invalid_metadata", "invalid_completion_window",
    }  # fmt: skip
