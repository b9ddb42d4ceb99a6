"""The refusal of one line, and how what was found is shown in its message."""

import json
from collections.abc import Sized

SHOWN_CHARACTERS = 60


class LineRefused(Exception):
    """One line cannot be used; the rest of the file still runs.

    Args:
        code: the machine code of the line's entry in the error file.
        message: the field, what was found and what is allowed, for a person.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def shown(value: object) -> str:
    """What was found in a line, as JSON of at most about 60 characters.

    Long texts are cut, lists and objects are named by their size: the message never repeats a
    prompt and never costs more than the value's first characters.
    """
    match value:
        case None:
            return "null"
        case str() if len(value) > SHOWN_CHARACTERS:
            return json.dumps(value[:SHOWN_CHARACTERS], ensure_ascii=False) + "..."
        case list() if value:
            return f"a list of {_count(value, 'item')}"
        case dict() if value:
            return f"an object of {_count(value, 'member')}"
        case float():
            return _cut(str(getattr(value, "text", value)))  # as the line spells it
        case _:
            return _cut(json.dumps(value, ensure_ascii=False))


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "..."


def _count(values: Sized, noun: str) -> str:
    return f"{len(values)} {noun}" + ("" if len(values) == 1 else "s")
