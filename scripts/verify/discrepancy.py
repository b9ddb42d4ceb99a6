"""What ends a check: the first thing that does not hold, or what keeps it from being made."""

import json
from typing import Any

from pydantic import ValidationError

SHOWN_CHARACTERS = 60


class Discrepancy(Exception):
    """Something in a delivery does not hold.

    Args:
        file: the delivery's file.
        message: what was found and what was expected.
        line: the line in the file, from 1; None for the file as a whole.
        custom_id: of the input line that it is about, where there is one.
        field: the member at fault, with dots and indices.
    """

    def __init__(
        self,
        file: str,
        message: str,
        *,
        line: int | None = None,
        custom_id: str | None = None,
        field: str | None = None,
    ) -> None:
        super().__init__(message)
        self.file = file
        self.line = line
        self.custom_id = custom_id
        self.field = field
        self.message = message

    def __str__(self) -> str:
        place = [self.file]
        if self.line is not None:
            place.append(f"line {self.line}")
        if self.custom_id is not None:
            place.append(f"custom_id {shown(self.custom_id)}")
        if self.field is not None:
            place.append(self.field)
        return f"{', '.join(place)}: {self.message}"


class Uncheckable(Exception):
    """The check cannot be made; the message says why and what to do."""


def shown(value: Any) -> str:
    """Return a value as one short line of printable ASCII, whatever a stranger wrote there."""
    if isinstance(value, list | dict) and value:
        return f"{'a list' if isinstance(value, list) else 'an object'} of {len(value)}"
    if isinstance(value, str):
        value = value[: SHOWN_CHARACTERS + 1]
    text = json.dumps(value, ensure_ascii=True)
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "..."


def shown_text(text: str) -> str:
    """Return a message as one line of printable ASCII of bounded length."""
    return json.dumps(text[:200], ensure_ascii=True)[1:-1].replace('\\"', '"')


def difference(expected: Any, found: Any, path: str = "") -> tuple[str, str] | None:
    """Return the first member in which two JSON values differ, and how; None for equal ones."""
    if isinstance(expected, dict) and isinstance(found, dict):
        for name in [*expected, *(name for name in found if name not in expected)]:
            place = f"{path}.{_plain(name)}" if path else _plain(name)
            if name not in found:
                return place, "is missing"
            if name not in expected:
                return place, "does not belong here"
            if (deeper := difference(expected[name], found[name], place)) is not None:
                return deeper
        return None
    if isinstance(expected, list) and isinstance(found, list):
        for index, (one, other) in enumerate(zip(expected, found, strict=False)):
            if (deeper := difference(one, other, f"{path}[{index}]")) is not None:
                return deeper
        if len(expected) != len(found):
            return path, f"has {len(found)} items, not {len(expected)}"
        return None
    if type(expected) is type(found) and expected == found:
        return None
    return path, f"is {shown(found)}, not {shown(expected)}"


def validation_fault(error: ValidationError) -> tuple[str, str | None]:
    """Return what is wrong with a document that does not parse, and in which member."""
    first = error.errors(include_input=False, include_url=False, include_context=False)[0]
    place = ""
    for part in first["loc"]:
        name = f"[{part}]" if isinstance(part, int) else _plain(part)
        place += name if isinstance(part, int) or not place else f".{name}"
    message = shown_text(first["msg"])
    return message[:1].lower() + message[1:], place or None


def _plain(name: str) -> str:
    """Return a member's name, in quotes where it is no plain word."""
    return name if name.isascii() and name.isidentifier() else shown(name)
