"""A model's chat template, rendered in Hugging Face's manner within bounds.

Templates come from public repositories, so they are hostile until proven otherwise: they run in
Jinja's immutable sandbox, in a worker process with a memory limit, for a bounded time, to a bounded
length.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from itertools import islice
from typing import NoReturn

import jinja2
from jinja2 import nodes

from gateway.intake.cpu_clock import Overtime, cpu_limit
from gateway.intake.refusal import LineRefused
from gateway.intake.sandbox import MAX_CHARACTERS, sandbox
from gateway.intake.variables import read_variables

MAX_CPU_SECONDS = 5.0
_PIECES_AT_ONCE = 16

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


class ChatTemplate:
    """One compiled chat template.

    Args:
        source: the Jinja text.
        special_tokens: ``bos_token`` and kin, given to the template as variables.

    Raises:
        TemplateUnusable: the text is no template.
    """

    def __init__(self, source: str, special_tokens: Mapping[str, str]) -> None:
        environment = sandbox()
        try:
            with cpu_limit(MAX_CPU_SECONDS):
                tree = environment.parse(source)
                reads = read_variables(tree)
                self._knows_developer = any(
                    constant.value == "developer" for constant in tree.find_all(nodes.Const)
                )
                self._template = environment.from_string(tree)
        except Overtime:
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
            "strftime_now": _clock_face(clock),
        }
        try:
            with cpu_limit(MAX_CPU_SECONDS):
                context = self._template.new_context(names)
                text = _joined(self._template.root_render_func(context))
            text.encode("utf-8")  # a template can write half a surrogate pair
            return text
        except Overtime:
            raise TemplateUnusable("it does not end in bounded time") from None
        except _TEMPLATE_ERRORS as error:
            raise LineRefused(
                "invalid_messages",
                f"The model's chat template does not take these messages: {str(error)[:200]}",
            ) from None


@lru_cache(maxsize=1)
def _clock_face(clock: int) -> Callable[[str], str]:
    """What formats one moment, which all lines of a file share."""
    return datetime.fromtimestamp(clock, UTC).strftime


def _raise_exception(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _as_system(message: Mapping[str, object]) -> Mapping[str, object]:
    return {**message, "role": "system"} if message["role"] == "developer" else message


def _joined(pieces: Iterator[str]) -> str:
    """Join the pieces of a text, some at a time."""
    texts: list[str] = []
    length = 0
    while some := list(islice(pieces, _PIECES_AT_ONCE)):
        length += sum(map(len, some))
        if length > MAX_CHARACTERS:
            raise LineRefused(
                "context_too_long",
                f"The rendered prompt is longer than {MAX_CHARACTERS:,} characters.",
            )
        texts += some
    return "".join(texts)
