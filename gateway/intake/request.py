"""One line of an input file, from its bytes to a request whose prompt is a text or ids."""

from collections.abc import Mapping
from dataclasses import dataclass

from gateway.intake.envelope import read_custom_id, read_envelope, read_url, salvage_id
from gateway.intake.fields import CHAT, check_fields
from gateway.intake.lines import Line
from gateway.intake.prompt import PromptReader
from gateway.intake.refusal import LineRefused, shown
from gateway.intake.settings import Settings, SettingsReader, invalid
from gateway.intake.tokenizer import ModelTokenizer

MAX_REFERENCE = 4_096


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
        max_tokens: of a line that sets none.
    """

    def __init__(
        self,
        model: str,
        vocabulary_size: int,
        graded: bool,
        tokenizer: ModelTokenizer,
        clock: int,
        max_tokens: int,
    ) -> None:
        self._model = model
        self._graded = graded
        self._settings = SettingsReader(vocabulary_size, max_tokens)
        self._prompts = PromptReader(tokenizer, vocabulary_size, clock)
        self._lines: dict[str, int] = {}

    def read(self, line: Line) -> Request | Refused:
        """Read one line; a refusal is a value here, for the rest of the file still runs.

        Raises:
            TemplateUnusable: the model's chat template cannot serve any line.
        """
        custom_id = ""
        try:
            envelope = read_envelope(line)
        except LineRefused as refusal:
            return Refused(line.number, salvage_id(line), refusal.code, refusal.message)
        try:
            custom_id = read_custom_id(envelope.get("custom_id"))
            self._claim(custom_id, line.number)
            url = read_url(envelope)
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
        settings = self._settings.read(url, body)
        prompts = self._prompts
        prompt = prompts.conversation(body) if url == CHAT else prompts.prompt(body.get("prompt"))
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
                "reference is read by a grader, and this order has none: name one "
                "(metadata.reliquary_grader of a batch, grader of a quote) or remove it.",
            )
        if not isinstance(value, str) or not 1 <= len(value) <= MAX_REFERENCE:
            raise invalid("reference", f"a text of 1 to {MAX_REFERENCE:,} characters", value)
        return value
