r"""Numbers that are written out: integers, decimals, fractions, mixed numbers, powers of ten.

They are compared exactly, as fractions (``docs/graders.md``, section 6).
"""

import re
from dataclasses import dataclass
from fractions import Fraction

MAX_POWER_OF_TEN = 400
# Fewer decimal places say too little of a number to stand for it.
FEWEST_PLACES = 6

_DIGITS = r"(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)"
_DECIMAL = rf"(?:{_DIGITS}(?:\.\d*)?|\.\d+)"
_SIGNED = rf"(?:[+-] ?)?{_DECIMAL}"
_WRITTEN_DECIMAL = re.compile(rf"(?:[+-] ?)?{_DIGITS}?(?:\.(?P<places>\d*))?")
_POWER = r"10 ?\^ ?(?:\{ ?(?P<braced>[+-]?\d{1,4}) ?\}|(?P<bare>\d))"
_SCIENTIFIC = re.compile(
    rf"(?P<factor>{_SIGNED})(?: ?(?:\\times|\\cdot|\*) ?{_POWER}|[eE](?P<short>[+-]?\d{{1,4}}))"
)
_POWER_OF_TEN = re.compile(_POWER)
_FRACTION = re.compile(
    rf"(?P<sign>[+-]?) ?(?:(?P<whole>\d+)(?: ?(?=\\)| (?=\d)))?"
    rf"(?:\\frac ?\{{ ?(?P<above>{_SIGNED}) ?\}} ?\{{ ?(?P<below>{_SIGNED}) ?\}}"
    rf"|(?P<left>{_DECIMAL}) ?/ ?(?P<right>{_SIGNED}))"
)


_REPEATING = re.compile(
    r"(?P<sign>[+-]?) ?(?P<whole>\d*)\.(?P<places>\d*) ?\\overline ?\{ ?(?P<period>\d+) ?\}"
)
_IN_BASE = re.compile(r"(?P<digits>[0-9A-Za-z]+) ?_ ?(?:\{ ?(?P<braced>\d{1,2}) ?\}|(?P<bare>\d))")


@dataclass(frozen=True)
class Written:
    """A number as it is written.

    Attributes:
        value: exactly what it says.
        places: digits behind its point; None for one that is no plain decimal.
    """

    value: Fraction
    places: int | None = None

    def rounds(self, value: Fraction) -> bool:
        """Say whether this is ``value`` to the places that it is written to, which are enough."""
        if self.places is None or self.places < FEWEST_PLACES:
            return False
        return abs(self.value - value) * 2 * 10**self.places <= 1


def read_number(text: str) -> Written | None:
    """Return the number that a plain text is, or None where it is anything else."""
    if not text or not text.isascii():
        return None
    readers = (_decimal, _scientific, _fraction, _repeating, _in_base)
    return next(filter(None, (read(text) for read in readers)), None)


def without_base(text: str) -> str | None:
    """Return the digits of a number that names its base, such as ``77_8``; None for any other."""
    match = _IN_BASE.fullmatch(text)
    return None if match is None or not match["digits"].isdigit() else match["digits"]


def agree(left: Written, right: Written) -> bool:
    """Say whether two numbers are equal, or one rounds the other to enough places."""
    if left.value == right.value:
        return True
    return left.rounds(right.value) or right.rounds(left.value)


def _decimal(text: str) -> Written | None:
    match = _WRITTEN_DECIMAL.fullmatch(text)
    if match is None or not any(character.isdigit() for character in text):
        return None
    return Written(_exact(text), len(match["places"] or ""))


def _scientific(text: str) -> Written | None:
    match = _SCIENTIFIC.fullmatch(text)
    if match is not None:
        power = int(match["braced"] or match["bare"] or match["short"])
        return _times_ten(_exact(match["factor"]), power)
    match = _POWER_OF_TEN.fullmatch(text)
    return None if match is None else _times_ten(Fraction(1), int(match["braced"] or match["bare"]))


def _times_ten(factor: Fraction, power: int) -> Written | None:
    return Written(factor * Fraction(10) ** power) if abs(power) <= MAX_POWER_OF_TEN else None


def _fraction(text: str) -> Written | None:
    match = _FRACTION.fullmatch(text)
    if match is None:
        return None
    above = _exact(match["above"] or match["left"])
    below = _exact(match["below"] or match["right"])
    whole = Fraction(match["whole"] or 0)
    if below == 0 or (match["whole"] and (above < 0 or below < 0)):
        return None
    value = whole + above / below
    return Written(-value if match["sign"] == "-" else value)


def _repeating(text: str) -> Written | None:
    match = _REPEATING.fullmatch(text)
    if match is None:
        return None
    places, period = match["places"], match["period"]
    beginning = Fraction(int(match["whole"] + places or "0"), 10 ** len(places))
    rest = Fraction(int(period), (10 ** len(period) - 1) * 10 ** len(places))
    value = beginning + rest
    return Written(-value if match["sign"] == "-" else value)


def _in_base(text: str) -> Written | None:
    match = _IN_BASE.fullmatch(text)
    if match is None or not match["digits"][0].isdigit():
        return None
    try:
        return Written(Fraction(int(match["digits"], int(match["braced"] or match["bare"]))))
    except ValueError:
        return None


def _exact(decimal: str) -> Fraction:
    digits = decimal.replace(",", "").replace(" ", "")
    return Fraction(digits + "0" if digits.endswith(".") else digits)
