r"""The structure of an answer: sets, tuples, intervals, unions, lists, matrices, single values.

``docs/graders.md``, section 8. The kinds here, their reading in ``structured.py``.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Value:
    """A single value: a number, an expression, a relation, words.

    ``name`` is what it was said to be the value of, as in ``x = 5``; "" where nothing was named.
    """

    text: str
    name: str = ""


@dataclass(frozen=True)
class Bag:
    r"""Values in no order: ``\{1, 2\}``, or a bare list; only a bare list may hold one twice."""

    parts: tuple["Answer", ...]
    bare: bool


@dataclass(frozen=True)
class Row:
    """Values in order between brackets; of two values it may be an interval."""

    parts: tuple["Answer", ...]
    opening: str
    closing: str

    @property
    def brackets(self) -> str:
        """The brackets, where they say something: those of two values may bound an interval."""
        return self.opening + self.closing if len(self.parts) == 2 else ""


@dataclass(frozen=True)
class Union:
    r"""Parts of which an answer is the union, ``\cup``."""

    parts: tuple["Answer", ...]


@dataclass(frozen=True)
class Grid:
    """A matrix by rows."""

    rows: tuple[tuple["Answer", ...], ...]


Answer = Value | Bag | Row | Union | Grid
