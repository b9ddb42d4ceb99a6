"""Strict JSON of one line: each key once, real numbers, real Unicode, bounded depth.

The rules are those of RFC 8259 with nothing added; each departure refuses the line with a code of
its own. Numbers keep their text, so that no integer is ever rounded.
"""

import json
import re
from decimal import Decimal
from typing import NoReturn

import numpy as np

from gateway.intake.refusal import LineRefused, shown

MAX_DEPTH = 256

_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
_EXPONENT = re.compile("[eE]")
_NONZERO_DIGIT = re.compile("[1-9]")
_STEPS = bytes(
    {ord("["): 1, ord("{"): 1, ord("]"): 255, ord("}"): 255}.get(byte, 0) for byte in range(256)
)
_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")
_INTEGER_BOUND = 2**64


class Number(float):
    """A JSON number with a fraction or an exponent; ``text`` is how the line spells it."""

    __slots__ = ("text",)

    text: str

    def __new__(cls, text: str) -> "Number":
        """Read the number as a float and keep its spelling."""
        number = super().__new__(cls, text)
        number.text = text
        return number


def read_json(data: bytes) -> object:
    """Read one JSON value.

    Returns:
        None, bool, str, list, dict, int for numbers without fraction and exponent, else ``Number``.

    Raises:
        LineRefused: ``invalid_unicode``, ``too_deep``, ``duplicate_key`` or ``invalid_json``.
    """
    text = _decode(data)
    if too_deep(data):
        raise LineRefused("too_deep", f"The line nests deeper than the {MAX_DEPTH} levels allowed.")
    try:
        value = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise LineRefused("invalid_json", _explain(text, error)) from None
    except ValueError:
        raise LineRefused("invalid_json", "A number of the line has too many digits.") from None
    if _SURROGATE_ESCAPE.search(text):
        _refuse_lone_surrogates(value)
    return value


def read_leniently(data: bytes) -> object:
    """Read what ``read_json`` may refuse: repeated keys (the last counts), NaN, lone surrogates.

    Tells whose a refused line is and which model it names; None where even that cannot be read.
    """
    if too_deep(data):
        return None
    try:
        return json.loads(data.decode("utf-8"))
    except ValueError:
        return None


def too_deep(data: bytes) -> bool:
    """Whether brackets outside strings nest deeper than ``MAX_DEPTH``."""
    if data.count(b"[") + data.count(b"{") <= MAX_DEPTH:
        return False
    steps = _STRING.sub(b"", data).translate(_STEPS, _NO_BRACKETS)
    if not steps:
        return False
    return int(np.frombuffer(steps, dtype=np.int8).cumsum(dtype=np.int64).max()) > MAX_DEPTH


def integer(value: object) -> int | None:
    """The integer that a JSON number denotes, exactly; None for anything else.

    64, 64.0 and 6.4e1 are 64; 64.5, ``"64"`` and true are none. An integer spelled with fraction or
    exponent is one up to 2^64, which is beyond every limit.
    """
    if isinstance(value, int):
        return None if isinstance(value, bool) else value
    if not isinstance(value, Number) or not -_INTEGER_BOUND < value < _INTEGER_BOUND:
        return None
    if value == 0:
        return 0 if not _NONZERO_DIGIT.search(_EXPONENT.split(value.text)[0]) else None
    exact = Decimal(value.text)
    whole = exact.to_integral_value()
    return int(whole) if whole == exact else None


def number(value: object) -> int | float | None:
    """A JSON number, possibly infinite where it is beyond a float's range; None otherwise."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    return None


def _decode(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise LineRefused(
            "invalid_unicode",
            f"The line is not UTF-8: byte {error.start + 1} is 0x{data[error.start]:02x}.",
        ) from None


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise LineRefused(
            "duplicate_key", f"The key {shown(_repeated(pairs))} stands twice in one object."
        )
    return members


def _repeated(pairs: list[tuple[str, object]]) -> str | None:
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            return name
        seen.add(name)
    return None


def _refuse_constant(name: str) -> NoReturn:
    raise LineRefused("invalid_json", f"{name} is no JSON number.")


def _explain(text: str, error: json.JSONDecodeError) -> str:
    if text.startswith("\ufeff"):
        reason = "a byte-order mark may stand at the start of the file alone"
    elif error.msg == "Extra data" and text[error.pos :].strip() == ",":
        reason = "a comma follows the object; lines of JSONL have none between them"
    elif error.msg == "Extra data":
        reason = f"something follows the first value at character {error.pos + 1}"
    else:
        reason = f"{error.msg.removesuffix(' at')} at character {error.pos + 1}"
    return f"The line is not one JSON value: {reason}."


def _refuse_lone_surrogates(value: object) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise LineRefused(
            "invalid_unicode",
            "A text of the line holds half a surrogate pair (\\ud800 to \\udfff), "
            "which is no character.",
        ) from None


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=Number, parse_constant=_refuse_constant
)
