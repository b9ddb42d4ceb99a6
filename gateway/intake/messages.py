"""The messages of a chat line: checked, and brought into the form that chat templates read.

Content becomes one text: parts are joined without a separator, as templates that take parts join
them, and null becomes the empty text. The arguments of earlier tool calls become objects. All else
reaches the template as it is given.
"""

from collections.abc import Mapping

from gateway.intake.reading import read_json
from gateway.intake.refusal import LineRefused, shown

ROLES = ("system", "developer", "user", "assistant", "tool")

_TEXT_MEMBERS = ("name", "tool_call_id", "reasoning_content")
_MEDIA_PARTS = frozenset(
    {
        "image",
        "image_url",
        "input_image",
        "audio",
        "input_audio",
        "video",
        "video_url",
        "file",
        "input_file",
    }
)

Message = dict[str, object]


def read_messages(value: object) -> list[Message]:
    """Check the ``messages`` of a chat body.

    Returns:
        One dictionary per message with ``role``, ``content`` as a text, and its other members.

    Raises:
        LineRefused: ``invalid_messages`` or ``multimodal_unavailable``.
    """
    if not isinstance(value, list) or not value:
        raise _invalid("messages", "a list of at least one message", value)
    return [_message(f"messages[{index}]", message) for index, message in enumerate(value)]


def _message(where: str, value: object) -> Message:
    if not isinstance(value, dict):
        raise _invalid(where, "an object", value)
    role = value.get("role")
    if not isinstance(role, str) or role not in ROLES:
        raise _invalid(f"{where}.role", "one of " + ", ".join(ROLES), role)
    if "content" not in value and role != "assistant":
        raise _invalid(f"{where}.content", "a text, a list of text parts, or null", None)
    message: Message = {"role": role, "content": _content(f"{where}.content", value.get("content"))}
    for name, member in value.items():
        if name not in message and member is not None:
            message[name] = _member(f"{where}.{name}", name, role, member)
    return message


def _content(where: str, value: object) -> str:
    match value:
        case None:
            return ""
        case str():
            return value
        case list():
            return "".join(_part(f"{where}[{index}]", part) for index, part in enumerate(value))
        case _:
            raise _invalid(where, "a text, a list of text parts, or null", value)


def _part(where: str, value: object) -> str:
    if not isinstance(value, dict):
        raise _invalid(where, 'a part such as {"type": "text", "text": "..."}', value)
    kind = value.get("type")
    if isinstance(kind, str) and kind in _MEDIA_PARTS:
        raise LineRefused(
            "multimodal_unavailable",
            f"{where} has type {shown(kind)}; only text parts are offered.",
        )
    if kind != "text":
        raise _invalid(f"{where}.type", '"text"', kind)
    text = value.get("text")
    if not isinstance(text, str):
        raise _invalid(f"{where}.text", "a text", text)
    return text


def _member(where: str, name: str, role: str, value: object) -> object:
    if name == "audio":
        raise LineRefused("multimodal_unavailable", f"{where}: only text is offered.")
    if name == "function_call":
        raise _invalid(where, "given as tool_calls", value)
    if name in _TEXT_MEMBERS and not isinstance(value, str):
        raise _invalid(where, "a text", value)
    if name == "tool_calls":
        return _tool_calls(where, role, value)
    return value


def _tool_calls(where: str, role: str, value: object) -> list[object]:
    if role != "assistant":
        raise _invalid(where, "a member of assistant messages alone", value)
    if not isinstance(value, list):
        raise _invalid(where, "a list of tool calls", value)
    return [_tool_call(f"{where}[{index}]", call) for index, call in enumerate(value)]


def _tool_call(where: str, value: object) -> Mapping[str, object]:
    function = value.get("function") if isinstance(value, dict) else None
    if not isinstance(value, dict) or value.get("type", "function") != "function":
        raise _invalid(where, 'an object of type "function"', value)
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise _invalid(f"{where}.function", "an object with a name", function)
    arguments = _arguments(f"{where}.function.arguments", function.get("arguments"))
    return {**value, "function": {**function, "arguments": arguments}}


def _arguments(where: str, value: object) -> Mapping[str, object]:
    """The arguments as an object: OpenAI's clients send its JSON text, templates read members."""
    allowed = "a JSON object or its text"
    if isinstance(value, str):
        try:
            value = read_json(value.encode("utf-8", "surrogatepass")) if value.strip() else {}
        except LineRefused:
            raise _invalid(where, allowed, value) from None
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _invalid(where, allowed, value)
    return value


def _invalid(where: str, allowed: str, found: object) -> LineRefused:
    return LineRefused("invalid_messages", f"{where} must be {allowed}; found {shown(found)}.")
