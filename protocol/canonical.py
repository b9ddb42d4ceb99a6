"""Canonical JSON: the one byte encoding of a statement that is signed or hashed.

A statement is an object of strings, integers, booleans, nulls, lists and objects. Floats are
refused: their decimal form differs between languages. Keys are sorted, no white space, ASCII only.
"""

import json
from typing import Any

MAX_SAFE_INTEGER = 2**53 - 1


def canonical_json(statement: dict[str, Any]) -> bytes:
    """Encode ``statement`` to its canonical bytes.

    Raises:
        TypeError: a float or another type that has no canonical form is in the statement.
        ValueError: an integer lies outside ±(2^53 - 1), where other languages lose digits.
    """
    _check(statement)
    text = json.dumps(statement, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return text.encode("ascii")


def _check(value: Any) -> None:
    if value is None or isinstance(value, str | bool):
        return
    if isinstance(value, int):
        if abs(value) > MAX_SAFE_INTEGER:
            raise ValueError(f"{value} is past 2^53 - 1; write it as a string")
        return
    if isinstance(value, list | tuple):
        for item in value:
            _check(item)
        return
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise TypeError(f"statement keys are strings, not {type(key).__name__}")
            _check(item)
        return
    raise TypeError(f"{type(value).__name__} has no canonical form in a statement")
