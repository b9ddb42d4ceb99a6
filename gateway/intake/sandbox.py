"""The sandbox in which chat templates run: no way out, and no unbounded product or power."""

import json
from collections.abc import Sequence

import jinja2
from jinja2 import nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

MAX_CHARACTERS = 4 * 1024 * 1024
MAX_BASE = 1_000_000
MAX_EXPONENT = 64
MAX_FACTOR = 2**1_280  # above the largest power

_NAMES_OF_DICT = frozenset(dir(dict))


class _Generation(Extension):
    """``{% generation %}`` marks what an assistant wrote; its body is rendered as it stands."""

    tags = {"generation"}  # noqa: RUF012 - the base class declares it so

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """Parse up to ``{% endgeneration %}``."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _Sandbox(ImmutableSandboxedEnvironment):
    """The immutable sandbox, whose products and powers are bounded before they are computed."""

    intercepted_binops = frozenset({"*", "**"})

    def getattr(self, obj: object, attribute: str) -> object:
        """Look ``obj.attribute`` up as ever, but a member of a message without exceptions.

        A dictionary's own names come before its keys; what it has neither of is undefined.
        """
        if type(obj) is not dict or attribute in _NAMES_OF_DICT:
            return super().getattr(obj, attribute)
        if attribute in obj:
            return obj[attribute]
        return self.undefined(obj=obj, name=attribute)

    def call_binop(self, context: Context, operator: str, left: object, right: object) -> object:
        """Compute ``left * right`` or ``left ** right`` where the outcome is of bounded size."""
        if operator == "**" and not (_small(left) and _small(right, MAX_EXPONENT)):
            raise SecurityError("a power is too large")
        if operator == "*" and not (_small(left, MAX_FACTOR) and _small(right, MAX_FACTOR)):
            raise SecurityError("a product is too large")
        for text, times in ((left, right), (right, left)):
            if isinstance(text, Sequence) and not _small(times, MAX_CHARACTERS // (len(text) + 1)):
                raise SecurityError("a repetition is too long")
        return super().call_binop(context, operator, left, right)


def sandbox() -> jinja2.Environment:
    """An environment set up as Hugging Face sets up its own, within bounds."""
    environment = _Sandbox(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    return environment


def _to_json(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _small(value: object, bound: int = MAX_BASE) -> bool:
    return not isinstance(value, int) or abs(value) <= bound
