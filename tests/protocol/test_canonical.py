"""Canonical JSON: known bytes, one encoding per statement, and refused values."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.canonical import MAX_SAFE_INTEGER, canonical_json

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-MAX_SAFE_INTEGER, MAX_SAFE_INTEGER)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=8,
)
statements = st.dictionaries(st.text(max_size=4), values, max_size=4)


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ({}, b"{}"),
        ({"b": 1, "a": [True, None, "x"]}, b'{"a":[true,null,"x"],"b":1}'),
        ({"é": "\u2028\U0001f600"}, b'{"\\u00e9":"\\u2028\\ud83d\\ude00"}'),
        ({"a": MAX_SAFE_INTEGER}, b'{"a":9007199254740991}'),
        ({"a": (1, 2)}, b'{"a":[1,2]}'),
    ],
)
def test_known_bytes(statement: dict, expected: bytes):
    assert canonical_json(statement) == expected


@given(statement=statements)
def test_the_bytes_say_the_statement_whatever_the_order_of_its_keys(statement: dict):
    encoded = canonical_json(statement)
    assert json.loads(encoded) == statement
    assert canonical_json(dict(reversed(statement.items()))) == encoded
    assert encoded.isascii()


@given(one=statements, other=statements)
def test_different_statements_have_different_bytes(one: dict, other: dict):
    # JSON text tells True from 1, which Python's equality does not.
    same = json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    assert (canonical_json(one) == canonical_json(other)) == same


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (1.0, TypeError),
        (float("nan"), TypeError),
        (b"bytes", TypeError),
        ({1: "a"}, TypeError),
        (MAX_SAFE_INTEGER + 1, ValueError),
        (-MAX_SAFE_INTEGER - 1, ValueError),
    ],
)
def test_values_without_a_canonical_form_are_refused_however_deep(value, error: type):
    with pytest.raises(error):
        canonical_json({"a": value})
    with pytest.raises(error):
        canonical_json({"a": [{"b": [value]}]})
