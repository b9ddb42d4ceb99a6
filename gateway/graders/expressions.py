r"""Expressions compared by the computer algebra system (``docs/graders.md``, section 11).

It is SymPy, read by latex2sympy2 and compared by math-verify. Importing this module takes a second,
so only grading processes do.
"""

import logging
import re
from contextlib import suppress
from functools import lru_cache
from typing import Any

import sympy
from latex2sympy2_extended import NormalizationConfig, latex2sympy
from latex2sympy2_extended.latex2sympy2 import ConversionConfig
from math_verify import verify
from sympy.core.relational import Relational

from gateway.graders.magnitude import check_magnitude
from gateway.graders.numbers import FEWEST_PLACES, read_number

# SymPy's own classes know too little of one another for a type checker.
Expression = Any

# The unknowns take these values in order of their names: what differs there is not equal.
_POINTS = tuple(
    sympy.Rational(*pair)
    for pair in ((7_919, 10_007), (13_007, 9_973), (29, 47), (71, 31), (17, 59), (101, 83))
)
_IMAGINARY = {sympy.Symbol("i", real=True): sympy.I}
_GREATER = (sympy.StrictGreaterThan, sympy.GreaterThan)
_DIGITS = 30
_TOLERANCE = sympy.Rational(1, 10**15)
_NORMALIZATION = NormalizationConfig(
    basic_latex=True, units=False, malformed_operators=True, nits=False, boxed="none"
)
_CONVERSION = ConversionConfig(lowercase_symbols=False)
_DECIMAL = re.compile(r"(?<![\d.])(\d*)\.(\d+)(?![\d.])")

# It warns that it has no time limit of its own; the process has one.
logging.getLogger("math_verify").setLevel(logging.CRITICAL)


def same_expression(reference: str, answer: str) -> bool:
    """Say whether two plain texts are the same expression; False where that cannot be told."""
    left, right = _parsed(reference), _parsed(answer)
    if left is None or right is None:
        return False
    # SymPy raises errors of many kinds at odd expressions; such are equal to nothing.
    with suppress(Exception):
        if isinstance(left, Relational) or isinstance(right, Relational):
            return _same_relation(left, right)
        if _is_rounded(reference, right) or _is_rounded(answer, left):
            return True
        return _equal(left, right)
    return False


@lru_cache(maxsize=1_024)
def _parsed(text: str) -> Expression | None:
    """Return the expression of a plain text; None where it is none, or too large to evaluate."""
    exact = _DECIMAL.sub(_as_fraction, text)
    # The parser raises Exception itself.
    with suppress(Exception):
        expression: Any = latex2sympy(
            exact,
            is_real=True,
            normalization_config=_NORMALIZATION,
            conversion_config=_CONVERSION,
        )
        check_magnitude(expression)
        return expression.xreplace(_IMAGINARY)
    return None


def _as_fraction(decimal: re.Match[str]) -> str:
    """Write a decimal so that it is read exactly."""
    whole, places = decimal.groups()
    return rf"(\frac{{{int(whole + places)}}}{{{10 ** len(places)}}})"


def _is_rounded(text: str, expression: Expression) -> bool:
    """Say whether a text is a decimal that rounds a number to enough places."""
    written = read_number(text)
    if written is None or (written.places or 0) < FEWEST_PLACES or expression.free_symbols:
        return False
    value = expression.evalf(_DIGITS + (written.places or 0))
    difference = abs(value - sympy.Rational(written.value)) * 2 * 10 ** (written.places or 0)
    return bool(difference <= 1)


def _equal(left: Expression, right: Expression) -> bool:
    return _may_be_equal(left, right) and verify(left, right, timeout_seconds=None)


def _same_relation(left: Expression, right: Expression) -> bool:
    """Say whether the difference of one relation's sides is a multiple of the other's.

    By any number where the relation is symmetric, by a positive one where it is not.
    """
    if not (isinstance(left, Relational) and isinstance(right, Relational)):
        return False
    (kind, ours), (other_kind, theirs) = _difference(left), _difference(right)
    if kind is not other_kind:
        return False
    at = _point(ours, theirs)
    factor = ours.subs(at) / theirs.subs(at)
    if kind in (sympy.Eq, sympy.Ne) or factor.is_positive:
        return _equal(ours, factor * theirs)
    return False


def _difference(relation: Expression) -> tuple[type, Expression]:
    """Return the kind of a relation, never a greater, and the difference of its sides."""
    if isinstance(relation, _GREATER):
        relation = relation.reversed
    return type(relation), relation.lhs - relation.rhs


def _point(*expressions: Expression) -> dict[Any, Any]:
    unknowns = sorted(set().union(*(one.free_symbols for one in expressions)), key=str)
    if len(unknowns) > len(_POINTS):
        raise ValueError("it has too many unknowns")
    return dict(zip(unknowns, _POINTS, strict=False))


def _may_be_equal(left: Expression, right: Expression) -> bool:
    """Say whether two expressions agree where all unknowns have fixed values.

    Simplifying takes long, and most wrong answers are told apart here.
    """
    at = _point(left, right)
    ours, theirs = (side.subs(at).evalf(_DIGITS) for side in (left, right))
    if not (ours.is_number and theirs.is_number and ours.is_finite and theirs.is_finite):
        return True
    scale = max(1, abs(ours), abs(theirs))
    return bool(abs(ours - theirs) <= _TOLERANCE * scale)
