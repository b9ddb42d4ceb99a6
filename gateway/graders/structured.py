r"""Reading the structure of an answer from its plain form (``docs/graders.md``, section 8)."""

import re
from dataclasses import replace

from gateway.graders.brackets import nesting, outside, split, wrapping
from gateway.graders.structure import Answer, Bag, Grid, Row, Union, Value

MAX_DEPTH = 16
MAX_PARTS = 256

_CONJUNCTION = re.compile(r",? ?\\text ?\{ ?(?:and|or) ?\}|,? (?:and|or) (?=[^ ])")
_THOUSANDS = re.compile(
    r"[+-]? ?\d{1,3}(?:,\d{3})+(?:\.\d+)?(?: ?%| ?\\text ?\{[^{}]*\}| [A-Za-z]+)?"
)
_MATRIX = re.compile(
    r"\\begin ?\{([pbvBV]?matrix)\}(?P<cells>[^\\]*(?:\\(?!end\b)[^\\]*)*)\\end ?\{\1\}"
)
_NAME = re.compile(
    r"(?:\\?[A-Za-z]+|\\text ?\{[^{}]*\})(?: ?_ ?(?:\w|\{[^{}]*\}))?(?:'|\^ ?\{ ?-1 ?\})?"
    r"(?: ?\( ?[A-Za-z](?: ?, ?[A-Za-z])* ?\))?"
    r"|\( ?[A-Za-z](?: ?, ?[A-Za-z])+ ?\)"
)
_LESS, _GREATER = ("<", r"\le"), (">", r"\ge")
_EMPTY = r"\emptyset"
_EITHER = re.compile(r"\\pm(?![A-Za-z])")


class Unreadable(Exception):
    """An answer past the limits; it answers nothing but the very same text."""


def structured(text: str) -> Answer:
    """Return the structure of a plain answer.

    Raises:
        Unreadable: it nests too deep or has too many parts.
    """
    if nesting(text) > MAX_DEPTH:
        raise Unreadable(f"it nests deeper than {MAX_DEPTH}")
    if sum(map(text.count, (",", ";", "&"))) >= MAX_PARTS:
        raise Unreadable(f"it has more than {MAX_PARTS} parts")
    return _read(_CONJUNCTION.sub(",", text))


def _read(text: str) -> Answer:
    parts = split(text, r"\cup")
    if len(parts) > 1:
        return Union(tuple(map(_read, parts)))
    parts = [part for part in split(text, ",", ";") if part]
    if len(parts) > 1 and not _THOUSANDS.fullmatch(text):
        return Bag(tuple(map(_read, parts)), bare=True)
    matrix = _MATRIX.fullmatch(text)
    if matrix is not None:
        return _grid(matrix["cells"])
    return _bracketed(text) or _named(text) or _either_sign(text) or _interval(text) or Value(text)


def _bracketed(text: str) -> Answer | None:
    if text == _EMPTY:
        return Bag((), bare=False)
    wrapped = wrapping(text)
    if wrapped is None:
        return None
    opening, inner, closing = wrapped
    if opening == "{":
        return _read(inner) if closing == "}" else None
    parts = [part for part in split(inner, ",", ";") if part]
    if opening == r"\{":
        if closing != r"\}":
            return None
        condition = split(inner, "|", ":")
        if len(condition) > 1:
            return _described(*condition) if len(condition) == 2 else None
        return Bag(tuple(map(_read, parts)), bare=False)
    if closing in ("}", r"\}"):
        return None
    if len(parts) == 1 and (opening, closing) == ("(", ")"):
        return _read(inner)
    return Row(tuple(map(_read, parts)), opening, closing) if len(parts) > 1 else None


def _described(unknown: str, condition: str) -> Answer | None:
    r"""Read a set that is described by where its members lie: ``\{x | x > 3\}``."""
    name = split(unknown, r"\in")[0]
    return _interval(condition) if _NAME.fullmatch(name) else None


def _grid(cells: str) -> Grid:
    rows = [row for row in split(cells, r"\\") if row]
    return Grid(tuple(tuple(_read(cell) for cell in split(row, "&")) for row in rows))


def _named(text: str) -> Answer | None:
    r"""Read what is said to be the value of a name: ``x = 5``, ``f(x) = 2x``, ``x \in [0, 1]``."""
    named = split(text, "=", r"\in")
    if len(named) < 2 or not named[-1] or not _NAME.fullmatch(named[0]):
        return None
    answer = _read(named[-1])
    return replace(answer, name=named[0]) if isinstance(answer, Value) else answer


def _either_sign(text: str) -> Answer | None:
    if len(_EITHER.findall(text)) != 1:
        return None
    return Bag(tuple(_read(_EITHER.sub(sign, text).strip()) for sign in "+-"), bare=True)


def _interval(text: str) -> Answer | None:
    """Read the inequalities that say where one unknown lies, as an interval."""
    sides = split(text, *_LESS, *_GREATER)
    if len(sides) not in (2, 3) or not all(sides):
        return None
    signs = [token for token, _, _ in outside(text) if token in _LESS + _GREATER]
    unknown = sides[1] if len(sides) == 3 else next(filter(_NAME.fullmatch, sides), "")
    if not _NAME.fullmatch(unknown) or len({sign in _LESS for sign in signs}) > 1:
        return None
    if signs[0] in _GREATER:
        sides, signs = sides[::-1], signs[::-1]
    # From here on each side is less than the next.
    closed = [sign in (r"\le", r"\ge") for sign in signs]
    if len(sides) == 3:
        low, high = sides[0], sides[2]
        return _bounded(low, high, closed[0], closed[1])
    if sides[0] == unknown:
        return _bounded(r"-\infty", sides[1], False, closed[0])
    return _bounded(sides[0], r"\infty", closed[0], False)


def _bounded(low: str, high: str, closed_low: bool, closed_high: bool) -> Row:
    return Row((_read(low), _read(high)), "[" if closed_low else "(", "]" if closed_high else ")")
