r"""Whether two single values are the same (``docs/graders.md``, section 10)."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from gateway.graders.numbers import Written, agree, read_number, without_base
from gateway.graders.structure import Value
from gateway.graders.units import Measured, measured

SameExpression = Callable[[str, str], bool]
"""Says whether two plain texts are the same mathematical expression."""

_TEXT = re.compile(r"\\text ?\{([^{}]*)\}")
_WORDS = re.compile(r"\(?([A-Za-z][A-Za-z' -]*)\)?")
MOST_UNKNOWNS = 3
_OF_A_HUNDRED = Fraction(1, 100)


@dataclass(frozen=True)
class ValueRule:
    """Compares single values; expressions that are no written numbers by ``same_expression``."""

    same_expression: SameExpression

    def same(self, reference: Value, answer: Value) -> bool:
        """Say whether an answer's value is its reference's."""
        if squeezed(reference.text) == squeezed(answer.text):
            return True
        if bool(reference.name) != bool(answer.name) and "=" in reference.text + answer.text:
            # One was read as the value of a name, the other is an equation: both are equations.
            return self.same_expression(_equation(reference), _equation(answer))
        if is_worded(reference.text) or is_worded(answer.text):
            expected = words_of(reference.text)
            return expected is not None and expected == words_of(answer.text)
        wanted, found = measured(reference.text), measured(answer.text)
        if wanted.unit and found.unit and wanted.unit != found.unit:
            return False
        return any(self._equal(left, right) for left, right in _readings(wanted, found))

    def _equal(self, left: "Scaled", right: "Scaled") -> bool:
        left_number, right_number = left.number(), right.number()
        if left_number is not None and right_number is not None:
            return agree(left_number, right_number)
        return self.same_expression(left.expression(), right.expression())


@dataclass(frozen=True)
class Scaled:
    """A text whose value counts as it is, or in hundredths."""

    text: str
    hundredths: bool

    def number(self) -> Written | None:
        """The number that it is, or None."""
        written = read_number(self.text)
        if written is None or not self.hundredths:
            return written
        places = None if written.places is None else written.places + 2
        return Written(written.value * _OF_A_HUNDRED, places)

    def expression(self) -> str:
        """The text of its value."""
        return rf"\frac{{{self.text}}}{{100}}" if self.hundredths else self.text


def _readings(wanted: Measured, found: Measured) -> list[tuple[Scaled, Scaled]]:
    """Return the pairs of values that may agree.

    A reference's percent sign or base may be left out by the answer.
    """
    asked, given = Scaled(wanted.value, wanted.percent), Scaled(found.value, found.percent)
    pairs = [(asked, given)]
    if wanted.percent and not found.percent:
        pairs.append((Scaled(wanted.value, False), given))
    digits = without_base(wanted.value)
    if digits is not None and without_base(found.value) is None:
        pairs.append((Scaled(digits, False), given))
    return pairs


def _equation(value: Value) -> str:
    return f"{value.name} = {value.text}" if value.name else value.text


def squeezed(text: str) -> str:
    """Return a text without its white space."""
    return "".join(text.split())


def is_worded(text: str) -> bool:
    """Say whether a text is words and no mathematics.

    Up to three letters that LaTeX does not mark as text are a product of unknowns.
    """
    if words_of(text) is None:
        return False
    return _TEXT.fullmatch(text) is not None or sum(map(str.isalpha, text)) > MOST_UNKNOWNS


def words_of(text: str) -> str | None:
    """Return the words that a text may be read as, more than a letter in small letters; or None."""
    inside = _TEXT.fullmatch(text)
    found = _WORDS.fullmatch((inside[1] if inside else text).strip().strip(".:"))
    if found is None:
        return None
    words = " ".join(found[1].split())
    return words.casefold() if len(words) > 1 else words
