"""The members around a body, and lines that have none: refused alone, with codes of their own."""

from collections.abc import Callable
from typing import Any

import pytest


@pytest.mark.parametrize(
    ("members", "code", "custom_id"),
    [
        ({"custom_id": None}, "invalid_custom_id", ""),
        ({"custom_id": ""}, "invalid_custom_id", ""),
        ({"custom_id": "x" * 65}, "invalid_custom_id", ""),
        ({"custom_id": 5}, "invalid_custom_id", ""),
        ({"custom_id": ["q2"]}, "invalid_custom_id", ""),
        ({"custom_id": "q1"}, "duplicate_custom_id", "q1"),
        ({"method": "GET"}, "invalid_method", "q2"),
        ({"method": "post"}, "invalid_method", "q2"),
        ({"method": None}, "invalid_method", "q2"),
        ({"url": "/v1/embeddings"}, "invalid_url", "q2"),
        ({"url": "/v1/chat/completions/"}, "invalid_url", "q2"),
        ({"url": ["/v1/completions"]}, "invalid_url", "q2"),
        ({"url": None}, "invalid_url", "q2"),
        ({"body": None}, "invalid_body", "q2"),
        ({"body": "x"}, "invalid_body", "q2"),
        ({"body": []}, "invalid_body", "q2"),
        ({"body": {}}, "invalid_messages", "q2"),
        ({"reference": "42"}, "reference_without_grader", "q2"),
        ({"reference": ""}, "reference_without_grader", "q2"),
    ],
    ids=ascii,
)
def test_an_envelope_is_refused_alone(
    members: dict[str, object],
    code: str,
    custom_id: str,
    chat: Callable[..., dict[str, object]],
    read: Callable[..., Any],
) -> None:
    outcome = read([chat("q1"), {**chat("q2"), **members}, chat("q3")])
    assert outcome.codes() == {2: code}
    assert outcome.refused[0]["custom_id"] == custom_id


def test_missing_members_of_the_envelope(
    chat: Callable[..., dict[str, object]], read: Callable[..., Any]
) -> None:
    lines = [chat("q0")]
    for missing in ("custom_id", "method", "url", "body"):
        line = chat(f"without {missing}")
        del line[missing]
        lines.append(line)
    codes = read(lines).codes()
    assert list(codes.values()) == [
        "invalid_custom_id",
        "invalid_method",
        "invalid_url",
        "invalid_body",
    ]


def test_unknown_members_of_the_envelope_are_ignored(
    chat: Callable[..., dict[str, object]], read: Callable[..., Any]
) -> None:
    outcome = read([{**chat("q1"), "x": 1, "id": None, "reference": None}])
    assert outcome.refused == []


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("[1]", "invalid_line"),
        ('"x"', "invalid_line"),
        ("null", "invalid_line"),
        ("5", "invalid_line"),
        ("true", "invalid_line"),
        ("{", "invalid_json"),
        ("nonsense", "invalid_json"),
        ("{'custom_id': 'q'}", "invalid_json"),
        ("{} {}", "invalid_json"),
        ("{},", "invalid_json"),
        ("\ufeff{}", "invalid_json"),
        ('{"a": NaN}', "invalid_json"),
        ('{"a": -Infinity}', "invalid_json"),
        ('{"a": ' + "9" * 5000 + "}", "invalid_json"),
        ('{"a": "\t"}', "invalid_json"),
        ('{"a": 01}', "invalid_json"),
        ('{"a": 1.}', "invalid_json"),
        ('{"a": "\\x"}', "invalid_json"),
        ('{"a": 1,}', "invalid_json"),
        ("\u2028{}", "invalid_json"),
        ('{"a": 1, "b": {"c": 2, "c": 3}}', "duplicate_key"),
        ('{"a": "\\ud800"}', "invalid_unicode"),
        ('{"\\udc00x": 1}', "invalid_unicode"),
        ('{"a": "\\udc00\\ud800"}', "invalid_unicode"),
        (b'{"a": "\xff"}', "invalid_unicode"),
        (b'{"a": "\xed\xa0\x80"}', "invalid_unicode"),
        (b"\xff\xfe{\x00}\x00", "invalid_unicode"),
        ("[" * 100_000, "too_deep"),
        ('{"custom_id": "q2", "body": ' + '{"a":' * 256 + "1" + "}" * 257, "too_deep"),
        ("[" * 257 + "]" * 257, "too_deep"),
        ('{"a":' * 1000 + "1" + "}" * 1000, "too_deep"),
        ('{"a": "' + "x" * 4_200_000 + '"}', "line_too_large"),
    ],
    ids=lambda value: str(value)[:24].encode("unicode_escape").decode(),
)
def test_what_is_no_json_object_is_refused_alone(
    line: str | bytes,
    code: str,
    chat: Callable[..., dict[str, object]],
    read: Callable[..., Any],
) -> None:
    outcome = read([chat("q1"), line, chat("q3")])
    assert outcome.codes() == {2: code}
    assert outcome.refused[0]["custom_id"] == ""
    assert outcome.intake.usable_lines == 2
