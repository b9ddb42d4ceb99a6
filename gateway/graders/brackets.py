r"""Places in a plain answer outside of all its brackets. Linear time."""

import re
from collections.abc import Iterator

_TOKEN = re.compile(r"\\[A-Za-z]+|\\.|.", re.DOTALL)
_OPENING = frozenset(("(", "[", "{", r"\{"))
_CLOSING = frozenset((")", "]", "}", r"\}"))


def outside(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield the tokens of a text that lie outside of all brackets, each with its start and end.

    A bracket is outside itself where it opens or closes the outermost level.
    """
    depth = 0
    for token in _TOKEN.finditer(text):
        if token[0] in _CLOSING:
            depth -= 1
        if depth <= 0:
            yield token[0], token.start(), token.end()
        if token[0] in _OPENING:
            depth += 1


def nesting(text: str) -> int:
    """Return how deep the brackets of a text nest."""
    depth = deepest = 0
    for token in _TOKEN.finditer(text):
        depth += (token[0] in _OPENING) - (token[0] in _CLOSING)
        deepest = max(deepest, depth)
    return deepest


def split(text: str, *separators: str) -> list[str]:
    """Return the parts of a text between the separators that lie outside of all brackets."""
    parts: list[str] = []
    begin = 0
    for token, start, end in outside(text):
        if token in separators:
            parts.append(text[begin:start].strip())
            begin = end
    return [*parts, text[begin:].strip()]


def wrapping(text: str) -> tuple[str, str, str] | None:
    """Return the brackets around a whole text and what is between them; None where none are."""
    found = list(outside(text))
    brackets = [place for place in found if place[0] in _OPENING or place[0] in _CLOSING]
    if len(brackets) != 2 or brackets[0][1] != 0 or brackets[1][2] != len(text):
        return None
    (opening, _, begin), (closing, end, _) = brackets
    if opening not in _OPENING or closing not in _CLOSING:
        return None
    return opening, text[begin:end].strip(), closing
