r"""What an answer may carry beside its value: a unit, a currency, a percent sign.

``docs/graders.md``, section 7. A unit that is known says what is measured; any other word behind a
number is taken for a unit that says nothing.
"""

import re
from dataclasses import dataclass

# Each line is one unit in its spellings; the first is its name.
_SPELLINGS = """
mm millimeter millimetre
cm centimeter centimetre
m meter metre
km kilometer kilometre
in inch inches
ft foot feet
yd yard
mi mile
mg milligram
g gram gm
kg kilogram
lb lbs pound-mass
oz ounce
ml milliliter millilitre
l liter litre
s sec second
min minute
h hr hour
day
week
month
year yr
degree deg
rad radian
dollar usd bucks
cent
euro eur
mph
n newton
j joule
w watt
hz hertz
pa pascal
mol mole
"""
KNOWN = {
    spelling: line.split()[0]
    for line in _SPELLINGS.strip().splitlines()
    for spelling in line.split()
}
_POWERS = {"square": 2, "squared": 2, "sq": 2, "cubic": 3, "cubed": 3, "cu": 3}
_PERCENT = frozenset(("percent", "percentage", "pct", "per cent"))

_NOT_UNITS = frozenset(
    {
        "and", "or", "sin", "cos", "tan", "cot", "sec", "csc", "log", "exp", "sqrt", "mod", "inf",
        "alpha", "beta", "gamma", "delta", "theta", "lambda", "sigma", "phi", "omega",
    }
)  # fmt: skip

_BEHIND = re.compile(
    r"(?P<value>.*[^\s\\]) ?\\text ?\{(?P<text>[^{}]*)\}(?: ?\^ ?\{? ?(?P<power>[23]) ?\}?)?",
    re.DOTALL,
)
_APART = re.compile(
    r"(?P<value>.*[\d})]) (?P<text>[A-Za-z]+(?:[ /][A-Za-z]+)*)(?: ?\^ ?(?P<power>[23]))?"
)
_CLOSE = re.compile(r"(?P<value>.*\d)(?P<text>[A-Za-z]{2,3})(?:\^(?P<power>[23]))?")
_CIRCLE = re.compile(r"(?P<value>.*[\d})]) ?\^ ?(?:\\circ|\{ ?\\circ ?\}) ?(?P<scale>[CF]?)")
_MODULUS = re.compile(r"(?P<value>.+?) ?\\pmod ?(?:\{ ?(?P<braced>\w+) ?\}|(?P<bare>\w))")
_MARK = re.compile(r"(?P<sign>-?) ?(?P<mark>[€£¥])(?P<value>.+)")
_WORD = re.compile(r"[A-Za-z]+|/|\^ ?\{? ?[23]")


@dataclass(frozen=True)
class Measured:
    """An answer apart from what it carries.

    Attributes:
        value: the rest of the text.
        unit: the known unit with its powers, such as ``km/h`` or ``cm^2``; "" where there is none
            or it is not known.
        percent: a percent sign stands behind the value.
    """

    value: str
    unit: str = ""
    percent: bool = False


def measured(text: str) -> Measured:
    """Take a plain text apart."""
    if text.endswith("%"):
        return Measured(text[:-1].strip(), percent=True)
    circle = _CIRCLE.fullmatch(text)
    if circle is not None:
        return Measured(circle["value"].strip(), f"degree{circle['scale']}")
    modulus = _MODULUS.fullmatch(text)
    if modulus is not None:
        return Measured(modulus["value"], f"mod {modulus['braced'] or modulus['bare']}")
    mark = _MARK.fullmatch(text)
    if mark is not None:
        return Measured(mark["sign"] + mark["value"].strip(), mark["mark"])
    behind = _BEHIND.fullmatch(text) or _apart(text)
    if behind is None:
        return Measured(text)
    words = behind["text"].strip()
    if words.lower() in _PERCENT:
        return Measured(behind["value"].strip(), percent=True)
    unit = known_unit(words + (f"^{behind['power']}" if behind["power"] else ""))
    return Measured(behind["value"].strip(), unit)


def known_unit(words: str) -> str:
    """Return the name of a unit that is spelled in words or signs; "" where any is not known."""
    parts: list[str] = []
    power = 1
    for found in _WORD.findall(words):
        word = found.lower()
        if word in ("/", "per"):
            parts.append("/")
        elif word in _POWERS:
            power = _POWERS[word]
            if word in ("squared", "cubed") and parts:
                parts[-1] += f"^{power}"
                power = 1
        elif word.startswith("^"):
            if parts:
                parts[-1] += f"^{word.strip('^{} ')}"
        else:
            name = KNOWN.get(word) or KNOWN.get(word.removesuffix("s"))
            if name is None:
                return ""
            parts.append(name + (f"^{power}" if power > 1 else ""))
            power = 1
    return "".join(parts)


def _apart(text: str) -> re.Match[str] | None:
    """Return a unit without LaTeX around it: a known one, or a word that is no mathematics."""
    close = _CLOSE.fullmatch(text)
    if close is not None and known_unit(close["text"]):
        return close
    apart = _APART.fullmatch(text)
    if apart is None:
        return None
    words = apart["text"].lower().split()
    if apart["text"].lower() in _PERCENT:
        return apart
    # A single letter behind a number is an unknown.
    if len(apart["text"]) > 1 and known_unit(apart["text"]):
        return apart
    return apart if all(len(word) > 2 and word not in _NOT_UNITS for word in words) else None
