"""A model's chat template, rendered in Hugging Face's manner within bounds.

Templates come from public repositories, so they are hostile until proven otherwise: they run in
Jinja's immutable sandbox, in a worker process with a memory limit, for a bounded time, to a bounded
length.
"""

import json
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from types import FrameType
from typing import NoReturn

import jinja2
from jinja2 import nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from gateway.intake.refusal import LineRefused
from gateway.intake.variables import read_variables

MAX_CHARACTERS = 4 * 1024 * 1024
MAX_CPU_SECONDS = 5.0
MAX_POWER = 1_000_000

# What the renderer itself provides; everything else that a template reads is the customer's to set.
_STANDARD = frozenset(
    {
        "messages",
        "tools",
        "documents",
        "add_generation_prompt",
        "raise_exception",
        "strftime_now",
    }
)

# What a sandboxed template can raise: its own errors, and Python's through its expressions.
_TEMPLATE_ERRORS = (
    jinja2.TemplateError,
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
)


class TemplateUnusable(Exception):
    """The template cannot serve any line: it does not compile, or does not end in bounded time."""


class _Overtime(Exception):
    """The CPU time of one rendering is spent."""


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

    def call_binop(self, context: Context, operator: str, left: object, right: object) -> object:
        """Compute ``left * right`` or ``left ** right`` where the outcome is of bounded size."""
        if operator == "**" and not (_small(left) and _small(right, 64)):
            raise SecurityError("a power is too large")
        for text, times in ((left, right), (right, left)):
            if isinstance(text, Sequence) and not _small(times, MAX_CHARACTERS // (len(text) + 1)):
                raise SecurityError("a repetition is too long")
        return super().call_binop(context, operator, left, right)


class ChatTemplate:
    """One compiled chat template.

    Args:
        source: the Jinja text.
        special_tokens: ``bos_token`` and kin, given to the template as variables.

    Raises:
        TemplateUnusable: the text is no template.
    """

    def __init__(self, source: str, special_tokens: Mapping[str, str]) -> None:
        environment = _environment()
        try:
            with _cpu_limit(MAX_CPU_SECONDS):
                tree = environment.parse(source)
                reads = read_variables(tree)
                self._knows_developer = any(
                    constant.value == "developer" for constant in tree.find_all(nodes.Const)
                )
                self._template = environment.from_string(tree)
        except _Overtime:
            raise TemplateUnusable("it does not compile in bounded time") from None
        except (*_TEMPLATE_ERRORS, SyntaxError) as error:
            raise TemplateUnusable(f"it does not compile: {error}") from None
        self.takes_tools = "tools" in reads
        self.variables = frozenset(
            reads - _STANDARD - set(environment.globals) - set(special_tokens)
        )
        self._special_tokens = dict(special_tokens)

    def render(
        self,
        messages: Sequence[Mapping[str, object]],
        tools: Sequence[Mapping[str, object]] | None,
        variables: Mapping[str, object],
        clock: int,
    ) -> str:
        """Render a conversation with the generation prompt.

        A ``developer`` message is given as it is where the template knows the role, else as
        ``system``; where it does not appear in the text the line is refused, so none is ever lost.

        Args:
            messages: role, content as a text, and further members.
            tools: tool definitions, or None.
            variables: the line's ``chat_template_kwargs``, all of them in ``self.variables``.
            clock: Unix seconds; what ``strftime_now`` formats, in UTC.

        Raises:
            LineRefused: ``invalid_messages`` with the template's own message, or
                ``context_too_long`` past ``MAX_CHARACTERS``.
            TemplateUnusable: the rendering did not end in ``MAX_CPU_SECONDS``.
        """
        if not self._knows_developer:
            messages = [_as_system(message) for message in messages]
        names: dict[str, object] = {
            **self._special_tokens,
            **variables,
            "messages": messages,
            "tools": tools,
            "documents": None,
            "add_generation_prompt": True,
            "raise_exception": _raise_exception,
            "strftime_now": datetime.fromtimestamp(clock, UTC).strftime,
        }
        try:
            with _cpu_limit(MAX_CPU_SECONDS):
                return "".join(_bounded(self._template.generate(names)))
        except _Overtime:
            raise TemplateUnusable("it does not end in bounded time") from None
        except _TEMPLATE_ERRORS as error:
            raise LineRefused(
                "invalid_messages",
                f"The model's chat template does not take these messages: {str(error)[:200]}",
            ) from None


def _environment() -> jinja2.Environment:
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


def _raise_exception(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _as_system(message: Mapping[str, object]) -> Mapping[str, object]:
    return {**message, "role": "system"} if message["role"] == "developer" else message


def _small(value: object, bound: int = MAX_POWER) -> bool:
    return not isinstance(value, int) or abs(value) <= bound


def _bounded(pieces: Iterator[str]) -> Iterator[str]:
    length = 0
    for piece in pieces:
        length += len(piece)
        if length > MAX_CHARACTERS:
            raise LineRefused(
                "context_too_long",
                f"The rendered prompt is longer than {MAX_CHARACTERS:,} characters.",
            )
        yield piece


def _overtime(_number: int, _frame: FrameType | None) -> NoReturn:
    raise _Overtime


@cache
def _catch_overtime() -> None:
    """Give the signal to ``_overtime``, once in a process's life; main thread only."""
    signal.signal(signal.SIGVTALRM, _overtime)


@contextmanager
def _cpu_limit(seconds: float) -> Iterator[None]:
    """Raise ``_Overtime`` once the process has computed for ``seconds``; main thread only."""
    _catch_overtime()
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
