"""The table of body fields: accepted, ignored, accepted at a neutral value alone, refused."""

from collections.abc import Mapping

from gateway.intake import settings
from gateway.intake.refusal import LineRefused, shown

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
ENDPOINTS = (CHAT, COMPLETIONS)

_CONTENT = {
    CHAT: frozenset({"messages", "tools", "chat_template_kwargs"}),
    COMPLETIONS: frozenset({"prompt"}),
}
_IGNORED = frozenset({"user", "metadata", "store", "parallel_tool_calls", "service_tier"})

# The values of a field that change nothing. null is neutral everywhere.
_NEUTRAL: dict[str, tuple[object, ...]] = {
    "stream": (False,),
    "logprobs": (False, 0),
    "top_logprobs": (0,),
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "repetition_penalty": (1,),
    "logit_bias": ({},),
    "stop": ("", []),
    "response_format": ({"type": "text"},),
    "tool_choice": ("auto",),
    "echo": (False,),
    "suffix": ("",),
    "best_of": (1,),
}
_CODES = {"top_logprobs": "logprobs_unavailable"}


def check_fields(endpoint: str, body: Mapping[str, object]) -> None:
    """Refuse a body that has a field the endpoint does not take, or one at a non-neutral value.

    Raises:
        LineRefused: ``unsupported_parameter`` or ``<field>_unavailable``
            (``logprobs_unavailable`` for ``top_logprobs``).
    """
    content = _CONTENT[endpoint]
    for field, value in body.items():
        if field == "model" or field in content or field in settings.FIELDS or field in _IGNORED:
            continue
        if field not in _NEUTRAL:
            raise LineRefused(
                "unsupported_parameter",
                f"{shown(field)} is not offered on {endpoint}; remove it from the body.",
            )
        if value is not None and not any(_same(value, neutral) for neutral in _NEUTRAL[field]):
            raise LineRefused(
                _CODES.get(field, f"{field}_unavailable"),
                f"{field} is not offered (only its neutral value {_neutral_values(field)} is "
                f"accepted); found {shown(value)}.",
            )


def _neutral_values(field: str) -> str:
    """The neutral values of a field, for a message."""
    return " or ".join(
        '{"type": "text"}' if field == "response_format" else shown(value)
        for value in _NEUTRAL[field]
    )


def _same(value: object, neutral: object) -> bool:
    """Equal as JSON values: 0 and 0.0 are, 0 and false are not."""
    return isinstance(value, bool) == isinstance(neutral, bool) and value == neutral
