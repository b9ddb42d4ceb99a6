"""The prompt of a line: a conversation rendered to text, a text, or token ids."""

from collections.abc import Mapping

from gateway.intake.cpu_clock import spent_seconds
from gateway.intake.messages import read_messages
from gateway.intake.reading import integer
from gateway.intake.refusal import LineRefused, shown
from gateway.intake.settings import invalid
from gateway.intake.template import TemplateUnusable
from gateway.intake.tokenizer import ModelTokenizer
from gateway.intake.tools import read_tools

MAX_PROMPT_TOKENS = 131_072
# CPU time of the templates of a whole file: 50,000 lines need a twentieth of it.
MAX_TEMPLATE_SECONDS = 120.0


class PromptReader:
    """Makes the prompts of one file, for one model.

    Args:
        tokenizer: has the templates of conversations.
        vocabulary_size: V of the draw; given ids lie below it.
        clock: Unix seconds that templates see.
    """

    def __init__(self, tokenizer: ModelTokenizer, vocabulary_size: int, clock: int) -> None:
        self._tokenizer = tokenizer
        self._vocabulary_size = vocabulary_size
        self._clock = clock
        self._seconds_before = spent_seconds()

    def conversation(self, body: Mapping[str, object]) -> str:
        """The text of a chat body: its messages in the model's chat template.

        Raises:
            LineRefused: ``invalid_messages``, ``multimodal_unavailable``, ``invalid_tools``,
                ``tools_unavailable``, ``invalid_chat_template_kwargs``,
                ``unsupported_template_kwarg`` or ``context_too_long``.
            TemplateUnusable: the template cannot serve any line, or not all lines of a file.
        """
        messages = read_messages(body.get("messages"))
        tools = read_tools(body.get("tools"))
        variables = _template_variables(body.get("chat_template_kwargs"))
        template = self._tokenizer.template(with_tools=tools is not None)
        if template is None:
            raise LineRefused(
                "invalid_messages",
                "The model has no chat template; use /v1/completions with a prompt.",
            )
        if tools is not None and not template.takes_tools:
            raise LineRefused(
                "tools_unavailable", "The model's chat template takes no tools; remove them."
            )
        for name in variables:
            if name not in template.variables:
                raise LineRefused(
                    "unsupported_template_kwarg",
                    f"chat_template_kwargs has {shown(name)}, which the model's chat template "
                    f"does not read; it reads {_names(template.variables)}.",
                )
        if spent_seconds() - self._seconds_before > MAX_TEMPLATE_SECONDS:
            raise TemplateUnusable("it takes too much time over the lines of the file")
        text = template.render(messages, tools, variables, self._clock)
        for index, message in enumerate(messages):
            if message["role"] == "developer" and str(message["content"]).strip() not in text:
                raise LineRefused(
                    "invalid_messages",
                    f"messages[{index}] has role developer, which the model's chat template "
                    "leaves out here; give it as the first message, or in a user message.",
                )
        return text

    def prompt(self, value: object) -> str | list[int]:
        """The text or the ids of a completions body.

        Raises:
            LineRefused: ``invalid_prompt`` or ``context_too_long``.
        """
        if isinstance(value, str) and value:
            return value
        if isinstance(value, list) and value:
            return value if self._are_ids(value) else self._prompt_ids(value)
        raise invalid("prompt", "a text or a list of token ids, not empty", value)

    def _are_ids(self, values: list[int]) -> bool:
        """Whether all are plain ids, the common case, told without a loop in Python."""
        return (
            len(values) <= MAX_PROMPT_TOKENS
            and set(map(type, values)) == {int}
            and min(values) >= 0
            and max(values) < self._vocabulary_size
        )

    def _prompt_ids(self, values: list[object]) -> list[int]:
        if len(values) > MAX_PROMPT_TOKENS:
            raise too_long(f"{len(values):,}", MAX_PROMPT_TOKENS)
        if any(isinstance(value, str | list) for value in values):
            raise invalid("prompt", "one prompt: a text or a list of token ids", values)
        ids = [integer(value) for value in values]
        for index, found in enumerate(ids):
            if found is None or not 0 <= found < self._vocabulary_size:
                raise LineRefused(
                    "invalid_prompt",
                    f"prompt[{index}] must be a token id from 0 to {self._vocabulary_size - 1:,}; "
                    f"found {shown(values[index])}.",
                )
        return [found for found in ids if found is not None]


def too_long(found: str, limit: int) -> LineRefused:
    """The refusal of a line whose own prompt is over a limit, in ids."""
    return LineRefused(
        "context_too_long", f"The prompt has {found} tokens; at most {limit:,} are allowed."
    )


def _template_variables(value: object) -> Mapping[str, object]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise invalid("chat_template_kwargs", "an object", value)
    return value


def _names(variables: frozenset[str]) -> str:
    return ", ".join(sorted(variables)) or "none"
