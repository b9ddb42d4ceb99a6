"""The members of a line around its body: custom_id, method and url."""

from collections.abc import Mapping

from gateway.intake.fields import ENDPOINTS
from gateway.intake.lines import MAX_LINE_BYTES, Line
from gateway.intake.reading import read_json, read_leniently
from gateway.intake.refusal import LineRefused, shown
from gateway.intake.settings import invalid

MAX_CUSTOM_ID = 64


def read_envelope(line: Line) -> Mapping[str, object]:
    """The JSON object of a line.

    Raises:
        LineRefused: ``line_too_large``, ``invalid_line``, or a code of ``read_json``.
    """
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


def salvage_id(line: Line) -> str:
    """The custom_id of a line that is no acceptable JSON, where it can be told; else empty."""
    value = None if line.data is None else read_leniently(line.data)
    try:
        custom_id = read_custom_id(value.get("custom_id") if isinstance(value, dict) else None)
        custom_id.encode("utf-8")
    except (LineRefused, UnicodeEncodeError):
        return ""
    return custom_id


def read_custom_id(value: object) -> str:
    """The custom_id of a line.

    Raises:
        LineRefused: ``invalid_custom_id``.
    """
    if not isinstance(value, str) or not 1 <= len(value) <= MAX_CUSTOM_ID:
        raise invalid("custom_id", f"a text of 1 to {MAX_CUSTOM_ID} characters", value)
    return value


def read_url(envelope: Mapping[str, object]) -> str:
    """The url of a line, whose method is POST.

    Raises:
        LineRefused: ``invalid_method`` or ``invalid_url``.
    """
    if envelope.get("method") != "POST":
        raise invalid("method", '"POST"', envelope.get("method"))
    url = envelope.get("url")
    if not isinstance(url, str) or url not in ENDPOINTS:
        raise invalid("url", " or ".join(ENDPOINTS), url)
    return url
