"""What the framework finds wrong with a value, in words for whoever wrote the request."""

from collections.abc import Callable, Mapping
from typing import Any

_WORDS: dict[str, str] = {
    "missing": "is required",
    "extra_forbidden": "is not known here; it may be misspelled",
    "string_type": "must be a text",
    "int_type": "must be an integer",
    "int_from_float": "must be an integer",
    "int_parsing": "must be an integer",
    "literal_error": "must be {expected}",
    "greater_than_equal": "must be at least {ge:,}",
    "less_than_equal": "must be at most {le:,}",
    "string_pattern_mismatch": "must be a text that matches {pattern}",
    "value_error": "{error}",
}


def plain(fault: Mapping[str, Any]) -> str:
    """Return what is wrong, without the name of the field.

    Args:
        fault: one of a pydantic error's ``errors()``, with its context.
    """
    words = _WORDS.get(fault["type"])
    return fault["msg"] if words is None else words.format(**fault.get("ctx", {}))


def must_be(words: str, allowed: Callable[[str], object]) -> Callable[[str], str]:
    """Return a validator of texts: one that is not ``allowed`` "must be" what ``words`` say."""

    def check(value: str) -> str:
        if not allowed(value):
            raise ValueError(f"must be {words}")
        return value

    return check
