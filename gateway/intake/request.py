"""One line of an input file, from its bytes to a request whose prompt is a text or ids."""

from collections.abc import Mapping
from dataclasses import dataclass

from gateway.intake.fields import CHAT, ENDPOINTS, check_fields
from gateway.intake.lines import MAX_LINE_BYTES, Line
from gateway.intake.messages import read_messages
from gateway.intake.reading import integer, read_json, read_leniently
from gateway.intake.refusal import LineRefused, shown
from gateway.intake.settings import Settings, invalid, read_settings
from gateway.intake.tokenizer import ModelTokenizer
from gateway.intake.tools import read_tools

MAX_CUSTOM_ID = 64
MAX_REFERENCE = 4_096
MAX_PROMPT_TOKENS = 131_072


@dataclass(frozen=True, slots=True)
class Refused:
    """A line that goes to the error file; ``custom_id`` is empty where the line has none of use."""

    line: int
    custom_id: str
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Request:
    """A line that is usable as far as its own members tell.

    ``prompt`` is a text that is still to be encoded, or ids that were given.
    """

    line: int
    custom_id: str
    settings: Settings
    prompt: str | list[int]
    reference: str | None


class RequestReader:
    """Reads the lines of one file in order.

    Args:
        model: name of the batch's model; a line that names another is refused.
        vocabulary_size: V of the draw; prompt ids lie below it.
        graded: every line needs a ``reference``; otherwise none may have one.
        tokenizer: has the templates of conversations.
        clock: Unix seconds that templates see.
    """

    def __init__(
        self,
        model: str,
        vocabulary_size: int,
        graded: bool,
        tokenizer: ModelTokenizer,
        clock: int,
    ) -> None:
        self._model = model
        self._vocabulary_size = vocabulary_size
        self._graded = graded
        self._tokenizer = tokenizer
        self._clock = clock
        self._lines: dict[str, int] = {}

    def read(self, line: Line) -> Request | Refused:
        """Read one line; a refusal is a value here, for the rest of the file still runs.

        Raises:
            TemplateUnusable: the model's chat template cannot serve any line.
        """
        custom_id = ""
        try:
            envelope = _envelope(line)
        except LineRefused as refusal:
            return Refused(line.number, _salvage_id(line), refusal.code, refusal.message)
        try:
            custom_id = _custom_id(envelope.get("custom_id"))
            self._claim(custom_id, line.number)
            url = _url(envelope)
            reference = self._reference(envelope.get("reference"))
            body = envelope.get("body")
            if not isinstance(body, dict):
                raise invalid("body", "an object", body)
            return self._request(line.number, custom_id, url, body, reference)
        except LineRefused as refusal:
            return Refused(line.number, custom_id, refusal.code, refusal.message)

    def _request(
        self,
        number: int,
        custom_id: str,
        url: str,
        body: Mapping[str, object],
        reference: str | None,
    ) -> Request:
        self._check_model(body.get("model"))
        check_fields(url, body)
        settings = read_settings(url, body, self._vocabulary_size)
        prompt = self._conversation(body) if url == CHAT else self._prompt(body.get("prompt"))
        return Request(number, custom_id, settings, prompt, reference)

    def _claim(self, custom_id: str, number: int) -> None:
        first = self._lines.setdefault(custom_id, number)
        if first != number:
            raise LineRefused(
                "duplicate_custom_id",
                f"custom_id {shown(custom_id)} is already that of line {first}; "
                "each line needs one of its own.",
            )

    def _check_model(self, model: object) -> None:
        if model is None or model == self._model:
            return
        if not isinstance(model, str):
            raise invalid("model", f"{shown(self._model)} or omitted", model)
        raise LineRefused(
            "model_mismatch",
            f"model must be that of the batch, {shown(self._model)}; found {shown(model)}.",
        )

    def _reference(self, value: object) -> str | None:
        if not self._graded:
            if value is None:
                return None
            raise LineRefused(
                "reference_without_grader",
                "reference is read by a grader, and this batch has none: "
                "set metadata.reliquary_grader or remove it.",
            )
        if not isinstance(value, str) or not 1 <= len(value) <= MAX_REFERENCE:
            raise invalid("reference", f"a text of 1 to {MAX_REFERENCE:,} characters", value)
        return value

    def _conversation(self, body: Mapping[str, object]) -> str:
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
        text = template.render(messages, tools, variables, self._clock)
        for index, message in enumerate(messages):
            if message["role"] == "developer" and str(message["content"]).strip() not in text:
                raise LineRefused(
                    "invalid_messages",
                    f"messages[{index}] has role developer, which the model's chat template "
                    "leaves out here; give it as the first message, or in a user message.",
                )
        return text

    def _prompt(self, value: object) -> str | list[int]:
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


def _envelope(line: Line) -> Mapping[str, object]:
    if line.data is None:
        raise LineRefused(
            "line_too_large", f"The line is longer than the {MAX_LINE_BYTES:,} bytes allowed."
        )
    value = read_json(line.data)
    if not isinstance(value, dict):
        raise LineRefused(
            "invalid_line", f"The line must be a JSON object, one request; found {shown(value)}."
        )
    return value


def _salvage_id(line: Line) -> str:
    """The custom_id of a line that is no acceptable JSON, where it can be told; else empty."""
    value = None if line.data is None else read_leniently(line.data)
    try:
        custom_id = _custom_id(value.get("custom_id") if isinstance(value, dict) else None)
        custom_id.encode("utf-8")
    except (LineRefused, UnicodeEncodeError):
        return ""
    return custom_id


def _custom_id(value: object) -> str:
    if not isinstance(value, str) or not 1 <= len(value) <= MAX_CUSTOM_ID:
        raise invalid("custom_id", f"a text of 1 to {MAX_CUSTOM_ID} characters", value)
    return value


def _url(envelope: Mapping[str, object]) -> str:
    if envelope.get("method") != "POST":
        raise invalid("method", '"POST"', envelope.get("method"))
    url = envelope.get("url")
    if not isinstance(url, str) or url not in ENDPOINTS:
        raise invalid("url", " or ".join(ENDPOINTS), url)
    return url


def _template_variables(value: object) -> Mapping[str, object]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise invalid("chat_template_kwargs", "an object", value)
    return value


def _names(variables: frozenset[str]) -> str:
    return ", ".join(sorted(variables)) or "none"
