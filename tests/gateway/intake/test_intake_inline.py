"""Requests in a create body become the lines of a file, whatever the window cuts."""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.intake import inline, window
from gateway.intake.inline import SplitBody, split_requests, write_lines
from gateway.intake.outcome import FileRefusal

CHAT = "/v1/chat/completions"
ADDED = '"method":"POST","url":"/v1/chat/completions"'


def split(folder: Path, body: bytes) -> SplitBody | FileRefusal:
    (folder / "body").write_bytes(body)
    return split_requests(folder / "body", folder / "items")


def lines(folder: Path) -> list[bytes]:
    """Write the input file of what was split last; its size and hash must be told right."""
    (folder / "input").unlink(missing_ok=True)
    size, digest = write_lines(folder / "items", folder / "input", CHAT)
    content = (folder / "input").read_bytes()
    assert (size, digest) == (len(content), sha256(content).hexdigest())
    return content.splitlines(keepends=True)


@pytest.fixture(params=[1, 7, 1_048_576])
def piece(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(window, "PIECE", request.param)
    return request.param


@pytest.mark.parametrize(
    ("item", "line"),
    [
        ("{}", "{" + ADDED + "}"),
        ("{ }", "{" + ADDED + " }"),
        ('{"custom_id":"a"}', "{" + ADDED + ',"custom_id":"a"}'),
        ('{"url":"x"}', '{"method":"POST","url":"x"}'),
        ('{"method":null}', '{"url":"/v1/chat/completions","method":null}'),
        ('{"method":"GET","url":3}', '{"method":"GET","url":3}'),
        # What is no request is a line of its own all the same, and is refused there.
        ("12", "12"),
        ("null", "null"),
        ('["a"]', '["a"]'),
        ('"text"', '"text"'),
        # Text is kept: numbers, escapes, repeated keys, NaN; but a line has no breaks.
        ('{"url":1,"method":1.0e+2}', '{"url":1,"method":1.0e+2}'),
        ('{"url":1,"method":6.00000000000000000001}', '{"url":1,"method":6.00000000000000000001}'),
        ('{"url":"\\ud800","method":NaN}', '{"url":"\\ud800","method":NaN}'),
        ('{"url":1,"url":2,"method":"é 😀 \u2028"}', '{"url":1,"url":2,"method":"é 😀 \u2028"}'),
        ('{\r\n "url":1,\n "method":2\r\n}', '{   "url":1,  "method":2  }'),
    ],
)  # fmt: skip
def test_an_item_is_a_line(tmp_path: Path, piece: int, item: str, line: str):
    body = f' {{"a": 1, "requests" : [ {item} , {item}\n], "endpoint":"x"}}\n'
    outcome = split(tmp_path, body.encode())
    assert isinstance(outcome, SplitBody)
    assert outcome.requests == 2
    assert set(json.loads(outcome.rest)) == {"a", "requests", "endpoint"}
    assert lines(tmp_path) == [line.encode() + b"\n"] * 2


@pytest.mark.parametrize(
    ("body", "requests", "rest"),
    [
        (b"{}", None, b"{}"),
        (b"[1, 2]", None, b"[1, 2]"),
        (b"", None, None),
        (b'{"requests":[]}', 0, b'{"requests":""}'),
        (b'{"requests":null}', None, b'{"requests":null}'),
        (b'{"requests":{"a":[1]}}', None, b'{"requests":{"a":[1]}}'),
        (b'{"b":{"requests":[1]}}', None, b'{"b":{"requests":[1]}}'),
        (b'{"a":1,"a":2}', None, b'{"a":1,"a":2}'),
    ],
)
def test_the_rest(
    tmp_path: Path, piece: int, body: bytes, requests: int | None, rest: bytes | None
):
    outcome = split(tmp_path, body)
    if rest is None:
        assert isinstance(outcome, FileRefusal)
    else:
        assert outcome == SplitBody(rest, requests)


@pytest.mark.parametrize(
    "body",
    [
        b"{", b'{"a"', b'{"a":', b'{"a":1', b'{"a":1,', b'{"a":1,}', b"{,}", b"{a:1}", b'{"a" 1}',
        b'{"requests":[', b'{"requests":[1', b'{"requests":[1,]}', b'{"requests":[,1]}',
        b'{"requests":[1 2]}', b'{"requests":[tru]}', b'{"requests":[1]', b'{"requests":[1]}x',
        b'{"requests":[1}}', b'{"requests":["\n"]}', b'{"requests":["\xff"]}', b"\xef\xbb\xbf{}",
        b'{"requests":["\xf0\x9f', b'{"requests":[' + b"[" * 5_000, b'{"a":"x',
        b'{"requests":[1.]}', b'{"requests":[01]}', b'{"requests":[-]}', b'{"requests":["\\x"]}',
    ],
)  # fmt: skip
def test_what_is_no_json(tmp_path: Path, piece: int, body: bytes):
    outcome = split(tmp_path, body)
    assert isinstance(outcome, FileRefusal)
    assert (outcome.status, outcome.code) == (400, "invalid_request")


def test_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    many = b'{"requests":[' + b",".join([b"{}"] * 50_000) + b"]}"
    outcome = split(tmp_path, many)
    assert isinstance(outcome, SplitBody)
    assert outcome.requests == 50_000
    outcome = split(tmp_path, many.replace(b"[{}", b"[{},{}"))
    assert isinstance(outcome, FileRefusal)
    assert (outcome.status, outcome.code) == (422, "invalid_batch_file")
    monkeypatch.setattr(inline, "MAX_LINE_BYTES", 1_000)
    monkeypatch.setattr(inline, "MAX_REST_BYTES", 1_000)
    monkeypatch.setattr(window, "PIECE", 100)
    for body in (
        b'{"requests":["' + b"x" * 2_000 + b'"]}',
        b'{"requests":["' + b"x" * 2_000,
        b'{"a":"' + b"x" * 2_000 + b'"}',
        b'{"a":"' + b'","a":"'.join([b"x" * 100] * 20) + b'"}',
    ):
        outcome = split(tmp_path, body)
        assert isinstance(outcome, FileRefusal)
        assert (outcome.status, outcome.code) == (413, "request_too_large")


def test_the_same_requests_have_the_same_digest(tmp_path: Path):
    def digest(body: str) -> str:
        outcome = split(tmp_path, body.encode())
        assert isinstance(outcome, SplitBody)
        return json.loads(outcome.rest)["requests"]

    known = digest('{"requests":[{"a":1,"b":[2]},3]}')
    assert digest('{"requests": [ {"b":[2], "a":1},\n3 ]}') == known
    others = ['[{"a":1,"b":[2]}]', '[{"a":1,"b":[3]},3]', '[3,{"a":1,"b":[2]}]', "[]"]
    assert known not in {digest(f'{{"requests":{other}}}') for other in others}


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(values, max_size=6), st.integers(1, 40), st.sampled_from([None, 1]))
def test_any_list_comes_through(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    items: list[Any],
    piece: int,
    indent: int | None,
):
    monkeypatch.setattr(window, "PIECE", piece)
    body = {"first": 1, "requests": items, "last": {"requests": [1]}}
    text = json.dumps(body, ensure_ascii=indent is None, indent=indent)
    outcome = split(tmp_path, text.encode("utf-8", "surrogatepass"))
    assert isinstance(outcome, SplitBody)
    assert outcome.requests == len(items)
    written = [json.loads(line) for line in lines(tmp_path)]
    expected = [
        {"method": "POST", "url": CHAT} | item if isinstance(item, dict) else item for item in items
    ]
    assert written == expected
    assert json.loads(outcome.rest)["last"] == {"requests": [1]}
