"""The upload's parser and the ranges of a download, over whatever bytes and cuts there are."""

import asyncio
from collections.abc import Sequence
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.requests import Request
from starlette.types import Message

from gateway.api.errors import RangeError
from gateway.api.multipart import FILENAME, parameters, received_upload
from gateway.api.ranges import requested_span
from gateway.errors import GatewayError

LIMIT = 10_000
BOUNDARY = "a-b'c"


def request_of(pieces: Sequence[bytes]) -> Request:
    """A request whose body arrives in these pieces."""
    messages: list[Message] = [
        {"type": "http.request", "body": piece, "more_body": True} for piece in pieces
    ]
    messages.append({"type": "http.request", "body": b"", "more_body": False})

    async def receive() -> Message:
        return messages.pop(0)

    headers = [
        (b"content-type", f"multipart/form-data; boundary={BOUNDARY}".encode()),
        (b"content-length", str(sum(map(len, pieces))).encode()),
    ]
    return Request({"type": "http", "method": "POST", "headers": headers}, receive)


def form(content: bytes, filename: str = "a.jsonl") -> bytes:
    head = f"--{BOUNDARY}\r\nContent-Disposition: form-data; name="
    return (
        (
            f'{head}"purpose"\r\n\r\nbatch\r\n{head}"file"; filename="{filename}"\r\n'
            "Content-Type: application/octet-stream\r\n\r\n"
        ).encode()
        + content
        + f"\r\n--{BOUNDARY}--\r\n".encode()
    )


async def upload(pieces: Sequence[bytes], folder: Path) -> tuple[str, bytes, int, str]:
    async with received_upload(request_of(pieces), folder, LIMIT) as received:
        content = received.path.read_bytes()
        return received.filename, content, received.size, received.sha256


def cut(body: bytes, places: Sequence[int]) -> list[bytes]:
    edges = [0, *sorted({place % (len(body) + 1) for place in places}), len(body)]
    return [body[a:b] for a, b in pairwise(edges)]


# Contents that look like the form around them are what a parser may stumble over.
SCRAPS = [
    b"\r",
    b"\n",
    b"\r\n",
    b"--",
    b"\r\n--",
    BOUNDARY.encode(),
    f"\r\n--{BOUNDARY[:-1]}".encode(),
    "😀".encode(),
    b"\0",
]


def is_no_boundary(content: bytes) -> bool:
    return f"\r\n--{BOUNDARY}".encode() not in b"\r\n" + content


TRICKY = st.lists(st.sampled_from(SCRAPS), min_size=1).map(b"".join).filter(is_no_boundary)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=TRICKY, places=st.lists(st.integers(0, 10**6), max_size=30))
def test_bytes_arrive_however_they_are_cut(
    tmp_path: Path, content: bytes, places: list[int]
) -> None:
    read = asyncio.run(upload(cut(form(content), places), tmp_path))
    assert read == ("a.jsonl", content, len(content), sha256(content).hexdigest())
    assert list(tmp_path.iterdir()) == []


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=st.binary(max_size=2_000), places=st.lists(st.integers(0, 10**6), max_size=5))
def test_junk_is_refused_and_leaves_nothing(tmp_path: Path, body: bytes, places: list[int]) -> None:
    for junk in (body, f"--{BOUNDARY}\r\n".encode() + body):
        with pytest.raises(GatewayError) as refused:
            asyncio.run(upload(cut(junk, places), tmp_path))
        assert (refused.value.status, refused.value.code) == (400, "invalid_file")
    assert list(tmp_path.iterdir()) == []


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(end=st.integers(0, 10**6), content=st.binary(min_size=1, max_size=300))
def test_every_truncation_is_refused(tmp_path: Path, end: int, content: bytes) -> None:
    body = form(content)
    # Only what follows the closing boundary may be missing.
    end = end % (len(body) - 2)
    with pytest.raises(GatewayError):
        asyncio.run(upload([body[:end]], tmp_path))
    assert list(tmp_path.iterdir()) == []


async def test_the_limit_is_exact(tmp_path: Path) -> None:
    assert (await upload([form(b"x" * LIMIT)], tmp_path))[2] == LIMIT
    with pytest.raises(GatewayError) as refused:
        await upload([form(b"x" * (LIMIT + 1))], tmp_path)
    assert (refused.value.status, refused.value.code) == (413, "file_too_large")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(filename=st.text(alphabet=st.characters(exclude_characters='"\\\r\n'), max_size=210))
def test_filenames_are_kept_or_refused(tmp_path: Path, filename: str) -> None:
    try:
        body = form(b"x", filename)
    except UnicodeEncodeError:
        return
    if FILENAME.fullmatch(filename) is None:
        with pytest.raises(GatewayError) as refused:
            asyncio.run(upload([body], tmp_path))
        assert refused.value.code == "invalid_file"
    else:
        assert asyncio.run(upload([body], tmp_path))[0] == filename


@pytest.mark.parametrize(
    ("header", "found"),
    [
        ("form-data", {}),
        ('form-data; name="a"', {"name": "a"}),
        ("form-data; name=a; filename=b", {"name": "a", "filename": "b"}),
        ('form-data; NAME="a;b=c"', {"name": "a;b=c"}),
        ('form-data; name="a"; name="b"', None),
        ('form-data; name="a" nonsense', None),
        ('form-data; name="a', None),
        ("form-data;", None),
    ],
)
def test_parameters(header: str, found: dict[str, str] | None) -> None:
    assert parameters(header) == found


@given(size=st.integers(0, 40), start=st.integers(0, 50), length=st.integers(1, 50))
def test_ranges_are_those_of_a_slice(size: int, start: int, length: int) -> None:
    content = bytes(range(size))
    for header, wanted in (
        (f"bytes={start}-{start + length - 1}", content[start : start + length]),
        (f"bytes={start}-", content[start:]),
        (f"bytes=-{length}", content[-length:]),
    ):
        if not wanted:
            with pytest.raises(RangeError):
                requested_span(header, None, '"e"', size)
            continue
        span = requested_span(header, None, '"e"', size)
        assert span is not None
        assert content[span.start : span.end] == wanted
        assert span.length == len(wanted)


@given(header=st.text(max_size=40))
def test_any_range_header_is_survived(header: str) -> None:
    try:
        span = requested_span(header, None, '"e"', 10)
    except RangeError:
        return
    assert span is None or 0 <= span.start < span.end <= 10
