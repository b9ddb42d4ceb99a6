r"""The plain form of an answer in LaTeX (``docs/graders.md``, section 5).

Everything that changes how an answer looks and not what it says is taken away: delimiters, spacing,
sizes, other names of one sign. Pure text; each step is linear.
"""

import re

_CHARACTERS = str.maketrans(
    {
        "−": "-", "–": "-", "×": r"\times ", "·": r"\cdot ", "÷": "/", "π": r"\pi ",
        "∞": r"\infty ", "≤": r"\le ", "≥": r"\ge ", "≠": r"\ne ", "∪": r"\cup ", "∈": r"\in ",
        "∅": r"\emptyset ", "°": r"^\circ ", "√": r"\sqrt ", "±": r"\pm ", "²": "^2", "³": "^3",
        "½": r"\frac{1}{2}", "⅓": r"\frac{1}{3}", "⅔": r"\frac{2}{3}", "¼": r"\frac{1}{4}",
        "¾": r"\frac{3}{4}", "％": "%", "，": ",", "（": "(", "）": ")",
        "\u00a0": " ", "\u2009": " ", "\u202f": " ",
    }
)  # fmt: skip

# Other names of a command, with what stands for it.
_NAMES = {
    "dfrac": r"\frac ", "tfrac": r"\frac ", "cfrac": r"\frac ", "dbinom": r"\binom ",
    "tbinom": r"\binom ", "leq": r"\le ", "geq": r"\ge ",
    "leqslant": r"\le ", "geqslant": r"\ge ", "neq": r"\ne ", "lt": "<", "gt": ">", "div": "/",
    "ast": "*", "lbrace": r"\{", "rbrace": r"\}", "langle": "(", "rangle": ")", "lbrack": "[",
    "rbrack": "]", "varnothing": r"\emptyset ", "mid": "|", "degree": r"^\circ ",
    "mathrm": r"\text ", "mathbf": r"\text ", "mathit": r"\text ", "mathsf": r"\text ",
    "textbf": r"\text ", "textrm": r"\text ", "textit": r"\text ", "textnormal": r"\text ",
    "mbox": r"\text ", "operatorname": r"\text ", "lor": r"\text{or}", "vee": r"\text{or}",
    "ldots": "...", "dots": "...", "cdots": "...",
}  # fmt: skip
_NO_NAMES = frozenset(
    {
        "left", "right", "middle", "big", "Big", "bigg", "Bigg", "bigl", "bigr", "Bigl", "Bigr",
        "biggl", "biggr", "displaystyle", "textstyle", "limits", "nolimits", "boldsymbol", "bm",
        "rm", "bf", "it", "quad", "qquad", "thinspace", "medspace", "thickspace", "enspace",
    }
)  # fmt: skip
# What an escaped character stands for; a space where it is not named.
_ESCAPED = {"{": r"\{", "}": r"\}", "%": "%", "|": "|", "\\": r"\\"}

_COMMAND = re.compile(r"\\([A-Za-z]+)\s*|\\([^A-Za-z])", re.DOTALL)
_DOUBLED = re.compile(r"\\\\(?=[A-Za-z])")
_GROUPED = re.compile(r"(?<=\d)(?:\\[,;: ]|~|\\thinspace\s?)(?=\d{3}(?!\d))")
_FLAT = r"\{([^{}]*)\}"
_PAIR = re.compile(rf"\\(frac|binom)\s*(?:{_FLAT}|([0-9A-Za-z]))\s*(?:{_FLAT}|([0-9A-Za-z]))")
_ROOT = re.compile(r"\\sqrt\s*([0-9A-Za-z])")
_POWER = re.compile(r"\^\s*\{\s*(\\circ|\w|-\d)\s*\}")
_NUMBER_AS_TEXT = re.compile(r"\\text\s*\{\s*((?:[-+.]?\d[^{}]*|[^{}A-Za-z]*))\}")
_REALS = re.compile(r"\\mathbb\s*\{\s*R\s*\}")
_WHITE = re.compile(r"\s+")


def plain(answer: str) -> str:
    """Return the plain form of an answer: one line, single spaces, one name for each sign."""
    text = answer.translate(_CHARACTERS).strip().strip("*")
    if "matrix}" not in text:
        text = _DOUBLED.sub(r"\\", text)
    text = text.replace("{,}", ",").replace(r"\!", "")
    text = _GROUPED.sub("", text)
    text = _COMMAND.sub(_renamed, text)
    text = text.replace("$", " ").replace("~", " ")
    text = _NUMBER_AS_TEXT.sub(r"\1", text)
    text = _REALS.sub(r"(-\\infty ,\\infty )", text)
    text = _PAIR.sub(_braced_pair, text)
    text = _ROOT.sub(r"\\sqrt{\1}", text)
    text = _POWER.sub(_bare_power, text)
    return _WHITE.sub(" ", text).strip().rstrip(".,;:\\ ")


def _renamed(command: re.Match[str]) -> str:
    name, character = command.groups()
    if name is None:
        return _ESCAPED.get(character, " ")
    if name in _NO_NAMES:
        return " "
    return _NAMES.get(name, rf"\{name} ")


def _braced_pair(pair: re.Match[str]) -> str:
    command, above, first, below, second = pair.groups()
    return rf"\{command}{{{above or first or ''}}}{{{below or second or ''}}}"


def _bare_power(power: re.Match[str]) -> str:
    exponent = power[1]
    return rf"^{exponent}" if len(exponent) == 1 or exponent == r"\circ" else rf"^{{{exponent}}}"
