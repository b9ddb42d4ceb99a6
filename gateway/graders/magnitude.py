r"""A bound on what it may cost to evaluate an expression (``docs/graders.md``, section 11).

Towers of powers, factorials of factorials, sums to infinity: told apart from their form alone.
"""

import math

import sympy
from sympy.core.relational import Relational

MAX_NODES = 400
MAX_DIGITS = 5_000
MAX_COUNTED = 1_000
# The largest power of an unknown, which may be multiplied out.
MAX_UNKNOWN_POWER = 64

_FUNCTIONS = (
    sympy.Abs, sympy.floor, sympy.ceiling, sympy.Max, sympy.Min, sympy.log, sympy.sign,
    sympy.sin, sympy.cos, sympy.tan, sympy.cot, sympy.sec, sympy.csc,
    sympy.asin, sympy.acos, sympy.atan, sympy.acot, sympy.asec, sympy.acsc,
    sympy.sinh, sympy.cosh, sympy.tanh, sympy.coth, sympy.asinh, sympy.acosh, sympy.atanh,
    sympy.re, sympy.im, sympy.conjugate, sympy.UnevaluatedExpr,
)  # fmt: skip
_ATOMS = (sympy.Symbol, sympy.Number, sympy.NumberSymbol, type(sympy.I))
_COUNTING = (sympy.factorial, sympy.binomial)


class TooLarge(Exception):
    """An expression that is not evaluated."""


def check_magnitude(expression: sympy.Basic) -> None:
    """Check that an expression, as it was read and not yet evaluated, is cheap to evaluate.

    Raises:
        TooLarge: it may not be, or holds something that is no value.
    """
    for count, _ in enumerate(sympy.preorder_traversal(expression), 1):
        if count > MAX_NODES:
            raise TooLarge("it has too many parts")
    _digits(expression)


def _digits(node: sympy.Basic) -> float:
    """Return a bound on the decimal digits of a node's value, at least 1.

    Both of the value and of its inverse; an unknown counts as 1.
    """
    if isinstance(node, sympy.Rational):
        digits = max(node.p.bit_length(), node.q.bit_length()) * math.log10(2) + 1
    elif isinstance(node, _ATOMS):
        digits = 1.0
    elif isinstance(node, sympy.Pow):
        digits = _power_digits(node.base, node.exp)
    elif isinstance(node, sympy.exp):
        digits = _power_digits(sympy.E, node.args[0])
    elif isinstance(node, _COUNTING):
        digits = _counting_digits(node)
    elif isinstance(node, (sympy.Add, sympy.Mul, Relational, *_FUNCTIONS)):
        digits = max(1.0, sum(map(_digits, node.args)))
    else:
        raise TooLarge(f"it holds {type(node).__name__}")
    if digits > MAX_DIGITS:
        raise TooLarge("its value has too many digits")
    return digits


def _power_digits(base: sympy.Basic, exponent: sympy.Basic) -> float:
    _digits(exponent)
    reach = _largest(exponent)
    if base.free_symbols and reach > MAX_UNKNOWN_POWER:
        raise TooLarge("a power of unknowns is too large")
    return max(1.0, _digits(base) * reach)


def _counting_digits(node: sympy.Basic) -> float:
    counted = max(_digits(argument) and _largest(argument) for argument in node.args)
    if counted > MAX_COUNTED:
        raise TooLarge("a factorial is too large")
    return math.lgamma(counted + 1) / math.log(10) + 1


def _largest(node: sympy.Basic) -> float:
    """Return a bound on the absolute value of a node, an unknown counted as 1; may be infinite."""
    if isinstance(node, (sympy.Number, sympy.NumberSymbol)):
        return abs(float(node))
    if isinstance(node, sympy.Symbol):
        return 1.0
    if isinstance(node, sympy.Add):
        return sum(map(_largest, node.args))
    if isinstance(node, sympy.Mul):
        return math.prod(map(_largest, node.args))
    try:
        return 10.0 ** _digits(node)
    except OverflowError:
        return math.inf
