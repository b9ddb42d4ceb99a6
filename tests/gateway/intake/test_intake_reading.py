"""Strict JSON of one line, and what any JSON at all does to intake."""

import json
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.intake.outcome import FileRefusal, Intake
from gateway.intake.reading import MAX_DEPTH, integer, number, read_json, too_deep
from gateway.intake.refusal import LineRefused, shown

Make = Callable[..., dict[str, Any]]

CODE = re.compile(r"[a-z][a-z_]{3,60}")
UNSHARED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)

texts = st.text(st.characters(codec="utf-8"), max_size=30)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)
finite = st.floats(allow_nan=False, allow_infinity=False)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | finite | texts,
        lambda inner: st.lists(inner) | st.dictionaries(texts, inner),
        max_leaves=20,
    ),
    st.booleans(),
)
def test_json_is_read_as_the_standard_library_reads_it(value: object, ascii_only: bool) -> None:
    assert read_json(json.dumps(value, ensure_ascii=ascii_only).encode()) == value


@pytest.mark.parametrize(
    "text",
    [
        "1",
        "-0",
        "0.5",
        "1e5",
        "1E+5",
        "-1.5e-5",
        '"\\ud83d\\ude00"',
        '"\\\\ud800"',
        ' \t\r\n"x" ',
        '""',
    ],
)
def test_what_json_allows(text: str) -> None:
    assert read_json(text.encode()) == json.loads(text)


@given(st.binary(max_size=60) | texts.map(str.encode))
def test_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        read_json(data)
    except LineRefused as refusal:
        assert CODE.fullmatch(refusal.code)


@given(st.lists(st.sampled_from(["[", "]", "{", "}", '"', "\\", "a", ","]), max_size=400))
def test_depth_is_that_of_brackets_outside_texts(pieces: list[str]) -> None:
    prefix = "[" * 200
    text = prefix + "".join(pieces)
    depth = most = 0
    inside = escaped = False
    for character in text:
        if inside:
            inside = escaped or character != '"'
            escaped = character == "\\" and not escaped
        elif character == '"':
            inside = '"' in text
        elif character in "[{":
            depth += 1
            most = max(most, depth)
        elif character in "]}":
            depth -= 1
    if not inside:
        assert too_deep(text.encode()) == (most > MAX_DEPTH)


def test_the_deepest_that_is_read() -> None:
    assert read_json(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH)
    with pytest.raises(LineRefused):
        read_json(b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1))
    assert read_json(b"[" + b",".join([b"[[]]"] * 1_000) + b"]")
    assert read_json(json.dumps(["[" * 1_000, '"' + "{" * 1_000]).encode())


@given(
    st.integers(-(10**30), 10**30),
    st.integers(-40, 40),
    st.sampled_from(["e", "E"]),
)
def test_an_integer_is_exact_in_every_spelling(digits: int, exponent: int, mark: str) -> None:
    exact = Fraction(digits) * Fraction(10) ** exponent
    found = integer(read_json(f"{digits}{mark}{exponent}".encode()))
    if exact.denominator == 1 and abs(exact) <= 2**63:
        assert found == exact
    else:
        assert found is None or found == exact


@given(st.integers())
def test_a_plain_integer_is_itself(value: int) -> None:
    assert integer(read_json(str(value).encode())) == value


@pytest.mark.parametrize("value", [True, False, None, "1", [], {}, [1]])
def test_what_is_no_number(value: object) -> None:
    assert integer(value) is None
    assert number(value) is None


@given(values)
def test_what_is_shown_is_short(value: object) -> None:
    assert 0 < len(shown(value)) <= 6 * 60 + 5


FIELDS = [
    "model",
    "messages",
    "tools",
    "chat_template_kwargs",
    "prompt",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "max_tokens",
    "max_completion_tokens",
    "seed",
    "n",
    "user",
    "stream",
    "logprobs",
    "logit_bias",
    "stop",
    "response_format",
    "tool_choice",
    "suffix",
    "other",
]

almost_messages = st.lists(
    st.dictionaries(
        st.sampled_from(["role", "content", "name", "tool_calls", "tool_call_id", "x"]),
        st.sampled_from(["system", "developer", "user", "assistant", "tool"])
        | values
        | st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": values}), max_size=2)
        | st.lists(st.fixed_dictionaries({"function": values}), max_size=2),
    ),
    max_size=3,
)
almost_tools = st.lists(
    st.fixed_dictionaries({"type": st.just("function") | values, "function": values}), max_size=2
)
bodies = st.dictionaries(
    st.sampled_from(FIELDS), values | almost_messages | almost_tools, max_size=4
)


@UNSHARED
@given(bodies, st.sampled_from(["chat", "completion"]))
def test_any_body_is_used_or_refused_with_a_code(
    chat: Make, completion: Make, run: Any, read: Any, body: dict[str, object], kind: str
) -> None:
    make = chat if kind == "chat" else completion
    endpoint = make()["url"]
    lines = [make("q1"), make("q2", **body), make("q3")]
    outcome = run(lines, endpoint=endpoint)
    if isinstance(outcome, FileRefusal):
        assert (outcome.status, outcome.code) in {(422, "mixed_sampling")}
        outcome = run([lines[1]], endpoint=endpoint)
        if isinstance(outcome, FileRefusal):
            assert outcome.code in {"invalid_max_tokens", "context_too_long"}
        else:
            assert outcome.usable_lines == 1
        return
    back = read(lines, endpoint=endpoint)
    assert [row["custom_id"] for row in back.usable if row["custom_id"] != "q2"] == ["q1", "q3"]
    for row in back.refused:
        assert (row["line"], row["custom_id"]) == (2, "q2")
        assert CODE.fullmatch(row["error"]["code"])
        assert row["error"]["message"].endswith(".")


@UNSHARED
@given(values)
def test_any_line_is_used_or_refused_with_a_code(chat: Make, read: Any, value: object) -> None:
    line = json.dumps(value)
    outcome = read([chat("q1"), line, chat("q3")])
    assert list(outcome.codes()) == [2]


@UNSHARED
@given(st.dictionaries(st.sampled_from(["custom_id", "method", "url", "body"]), values))
def test_any_envelope_is_used_or_refused_with_a_code(
    chat: Make, read: Any, members: dict[str, object]
) -> None:
    outcome = read([chat("first"), {**chat("q2"), **members}, chat("third")])
    assert isinstance(outcome.intake, Intake)
    assert outcome.intake.total_lines == 3


@UNSHARED
@given(st.lists(st.text(max_size=64), min_size=1, max_size=5, unique=True))
def test_any_custom_id_comes_back_equal_or_is_refused(
    chat: Make, read: Any, ids: list[str]
) -> None:
    outcome = read([chat("the first"), *(chat(custom_id) for custom_id in ids)])
    assert [row["custom_id"] for row in outcome.usable[1:]] == [i for i in ids if i]
