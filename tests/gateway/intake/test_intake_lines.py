"""One line among good ones: refused alone with its own code, or usable."""

import json
from collections.abc import Callable
from typing import Any

import pytest

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
USER = {"role": "user", "content": "hello"}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
CALL = {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}

BIG = 2**53


def deep(levels: int) -> dict[str, Any]:
    """A JSON schema of nested objects."""
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


def said(*messages: object) -> dict[str, object]:
    return {"messages": list(messages)}


def saying(content: object) -> dict[str, object]:
    return said({"role": "user", "content": content})


def tool(**members: object) -> dict[str, object]:
    return {"tools": [{"type": "function", "function": members}]}


REFUSED_CHAT: list[tuple[dict[str, object], str]] = [
    # model
    ({"model": "reliquary/other"}, "model_mismatch"),
    ({"model": "Reliquary/tiny"}, "model_mismatch"),
    ({"model": "reliquary/tiny "}, "model_mismatch"),
    ({"model": "tiny"}, "model_mismatch"),
    ({"model": ""}, "model_mismatch"),
    ({"model": 5}, "invalid_model"),
    # sampling
    ({"temperature": 0}, "greedy_unavailable"),
    ({"temperature": 0.0}, "greedy_unavailable"),
    ({"temperature": -0.0}, "greedy_unavailable"),
    *(({"temperature": v}, "invalid_temperature") for v in (-1, 4.01, 5, "1", True, [], {})),
    *(({"top_p": v}, "invalid_top_p") for v in (0, 0.0, -0.5, 1.01, 2, "1", True, [1])),
    *(({"top_k": v}, "invalid_top_k") for v in (-2, 0.01, 20.5, "20", True, [20], -(2**70))),
    *(({"min_p": v}, "invalid_min_p") for v in (1, 1.0, -0.1, "0", False, 2)),
    *(
        ({field: v}, "invalid_max_tokens")
        for field in ("max_tokens", "max_completion_tokens")
        for v in (131_073, 10**30, 64.5, "64", True, [64], {})
    ),
    ({"max_tokens": 64, "max_completion_tokens": 65}, "invalid_max_tokens"),
    *(({"seed": v}, "invalid_seed") for v in (-1, BIG, 2**64, 10**400, 7.5, "7", True, [7])),
    *(({"n": v}, "invalid_n") for v in (0, -1, 65, 1.5, "2", True, 10**30)),
    # neutral fields
    *(({"stream": v}, "stream_unavailable") for v in (True, 0, "false")),
    *(({"logprobs": v}, "logprobs_unavailable") for v in (True, 1, 5, "0")),
    *(({"top_logprobs": v}, "logprobs_unavailable") for v in (1, False, 20)),
    *(({"frequency_penalty": v}, "frequency_penalty_unavailable") for v in (0.1, -1, False)),
    *(({"presence_penalty": v}, "presence_penalty_unavailable") for v in (0.1, 2, "0")),
    *(({"repetition_penalty": v}, "repetition_penalty_unavailable") for v in (0, 1.1, True)),
    *(({"logit_bias": v}, "logit_bias_unavailable") for v in ({"1": 1}, [], 0)),
    *(({"stop": v}, "stop_unavailable") for v in ("x", ["x"], [""], {}, False)),
    *(
        ({"response_format": v}, "response_format_unavailable")
        for v in ({"type": "json_object"}, {}, "text", {"type": "text", "x": 1})
    ),
    *(({"tool_choice": v}, "tool_choice_unavailable") for v in ("none", "required", {}, TOOL)),
    *(({"echo": v}, "echo_unavailable") for v in (True, 0, "")),
    *(({"suffix": v}, "suffix_unavailable") for v in ("x", [], False)),
    *(({"best_of": v}, "best_of_unavailable") for v in (2, 0, True)),
    # unknown fields
    ({"reasoning_effort": "low"}, "unsupported_parameter"),
    ({"functions": []}, "unsupported_parameter"),
    ({"prompt": "x"}, "unsupported_parameter"),
    ({"Temperature": 1}, "unsupported_parameter"),
    ({"": 1}, "unsupported_parameter"),
    ({"x": None}, "unsupported_parameter"),
    # messages
    *(({"messages": v}, "invalid_messages") for v in (None, [], {}, "hi", 5, ["hi"], [None], [[]])),
    (said({"content": "x"}), "invalid_messages"),
    (said({"role": "User", "content": "x"}), "invalid_messages"),
    (said({"role": "function", "content": "x"}), "invalid_messages"),
    (said({"role": ["user"], "content": "x"}), "invalid_messages"),
    (said({"role": "user"}), "invalid_messages"),
    *((saying(v), "invalid_messages") for v in (5, True, {}, {"type": "text", "text": "x"})),
    (saying(["x"]), "invalid_messages"),
    (saying([None]), "invalid_messages"),
    (saying([{"type": "text"}]), "invalid_messages"),
    (saying([{"type": "text", "text": None}]), "invalid_messages"),
    (saying([{"type": "text", "text": 5}]), "invalid_messages"),
    (saying([{"text": "x"}]), "invalid_messages"),
    (saying([{"type": "input_text", "text": "x"}]), "invalid_messages"),
    (saying([{"type": ["text"], "text": "x"}]), "invalid_messages"),
    (saying([{"type": "refusal", "refusal": "x"}]), "invalid_messages"),
    (saying([{"type": "image_url", "image_url": {"url": "u"}}]), "multimodal_unavailable"),
    (saying([{"type": "text", "text": "x"}, {"type": "image"}]), "multimodal_unavailable"),
    (saying([{"type": "input_audio", "input_audio": {}}]), "multimodal_unavailable"),
    (saying([{"type": "file", "file": {}}]), "multimodal_unavailable"),
    (said(USER, {"role": "assistant", "audio": {"id": "a"}}), "multimodal_unavailable"),
    (said({**USER, "name": 5}), "invalid_messages"),
    (said({**USER, "tool_calls": [CALL]}), "invalid_messages"),
    (said(USER, {"role": "assistant", "tool_calls": {}}), "invalid_messages"),
    (said(USER, {"role": "assistant", "tool_calls": [5]}), "invalid_messages"),
    (said(USER, {"role": "assistant", "tool_calls": [{"function": {}}]}), "invalid_messages"),
    (said(USER, {"role": "assistant", "function_call": {"name": "f"}}), "invalid_messages"),
    *(
        (
            said(USER, {"role": "assistant", "tool_calls": [{"function": {"name": "f", **more}}]}),
            "invalid_messages",
        )
        for more in ({"arguments": "{"}, {"arguments": "[1]"}, {"arguments": 5})
    ),
    # tools
    *(({"tools": v}, "invalid_tools") for v in ({}, "x", 5, [5], [{}], [{"type": "function"}])),
    ({"tools": [{"type": "web_search"}]}, "invalid_tools"),
    ({"tools": [{"function": {"name": "f"}}]}, "invalid_tools"),
    (tool(), "invalid_tools"),
    (tool(name=""), "invalid_tools"),
    (tool(name=5), "invalid_tools"),
    (tool(name="f", description=5), "invalid_tools"),
    (tool(name="f", parameters=[]), "invalid_tools"),
    # template variables
    ({"chat_template_kwargs": {"thinking": True}}, "unsupported_template_kwarg"),
    ({"chat_template_kwargs": {"messages": []}}, "unsupported_template_kwarg"),
    ({"chat_template_kwargs": {"add_generation_prompt": False}}, "unsupported_template_kwarg"),
    ({"chat_template_kwargs": {"eos_token": "x"}}, "unsupported_template_kwarg"),
    ({"chat_template_kwargs": {"raise_exception": 1}}, "unsupported_template_kwarg"),
    ({"chat_template_kwargs": {"content": "x"}}, "unsupported_template_kwarg"),
    ({"chat_template_kwargs": []}, "invalid_chat_template_kwargs"),
    ({"chat_template_kwargs": "x"}, "invalid_chat_template_kwargs"),
    # what the JSON of a line may not hold
    (saying("\ud800"), "invalid_unicode"),
    ({"temperature": float("nan")}, "invalid_json"),
    ({"metadata": float("inf")}, "invalid_json"),
]

REFUSED_COMPLETIONS: list[tuple[dict[str, object], str]] = [
    *(
        ({"prompt": v}, "invalid_prompt")
        for v in (
            None,
            "",
            [],
            [""],
            ["a", "b"],
            [[1, 2]],
            [[]],
            [1, "a"],
            [-1],
            [10**6],
            [2**32 + 1],
            [10**400],
            [True],
            [1.5],
            [None],
            {},
            5,
            True,
        )
    ),
    ({"prompt": [1] * 131_073}, "context_too_long"),
    ({"prompt": [1] * 40_000}, "context_too_long"),
    ({"messages": [USER]}, "unsupported_parameter"),
    ({"tools": []}, "unsupported_parameter"),
    ({"chat_template_kwargs": {}}, "unsupported_parameter"),
]

USABLE_CHAT: list[dict[str, object]] = [
    {"model": None},
    {"temperature": None, "top_p": None, "top_k": None, "min_p": None, "seed": None, "n": None},
    {"max_tokens": None, "max_completion_tokens": None},
    {"temperature": 1, "top_p": 1, "top_k": 0, "min_p": 0, "max_tokens": 4096, "n": 1},
    {"temperature": 1.0, "top_p": 1.0, "top_k": -1.0, "min_p": -0.0, "n": 1.0},
    {"top_k": -1},
    {"top_k": 10**9},
    {"max_completion_tokens": 4096},
    {"max_tokens": 4096, "max_completion_tokens": 4096.0},
    {"max_tokens": 4096, "max_completion_tokens": None},
    {"user": "u", "metadata": {"a": 1}, "store": True, "service_tier": "flex"},
    {"user": 5, "metadata": [], "parallel_tool_calls": "x"},
    {"stream": False, "logprobs": False, "top_logprobs": 0, "logit_bias": {}, "stop": ""},
    {"stream": None, "logprobs": None, "top_logprobs": None, "logit_bias": None, "stop": None},
    {"logprobs": 0, "frequency_penalty": 0, "presence_penalty": 0.0, "repetition_penalty": 1.0},
    {"stop": [], "response_format": {"type": "text"}, "tool_choice": "auto", "echo": False},
    {"suffix": "", "best_of": 1},
    {"tools": []},
    {"tools": None},
    {"tools": [TOOL] * 200},
    tool(name="f"),
    tool(name="f", parameters=None, description=None, strict=True),
    tool(name="f", parameters=deep(64)),
    {"chat_template_kwargs": {"enable_thinking": False}},
    {"chat_template_kwargs": {}},
    {"chat_template_kwargs": None},
    saying(""),
    saying(None),
    saying([]),
    saying([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]),
    saying("\u0000\u2028\u0085\ufeff😀"),
    said({"role": "developer", "content": "x"}, USER),
    said({"role": "system", "content": "x"}, USER, {"role": "assistant", "content": "y"}, USER),
    said(USER, {"role": "assistant", "tool_calls": [CALL]}, {"role": "tool", "content": "z"}),
    said(USER, {"role": "assistant", "content": None, "refusal": None, "tool_calls": []}),
]

USABLE_COMPLETIONS: list[dict[str, object]] = [
    {"prompt": " "},
    {"prompt": "\u0000"},
    {"prompt": [0]},
    {"prompt": [1.0, 2e0]},
    {"prompt": [5] * 28_672},
]


def name(value: object) -> str:
    return json.dumps(value)[:60]


@pytest.mark.parametrize(("body", "code"), REFUSED_CHAT, ids=name)
def test_a_chat_line_is_refused_alone(
    body: dict[str, object],
    code: str,
    chat: Callable[..., dict[str, object]],
    read: Callable[..., Any],
) -> None:
    outcome = read([chat("q1"), chat("q2", **body), chat("q3")])
    assert outcome.codes() == {2: code}
    refused = outcome.refused[0]
    assert refused["custom_id"] == "q2"
    assert 10 < len(refused["error"]["message"]) < 500
    assert [row["custom_id"] for row in outcome.usable] == ["q1", "q3"]


@pytest.mark.parametrize(("body", "code"), REFUSED_COMPLETIONS, ids=name)
def test_a_completions_line_is_refused_alone(
    body: dict[str, object],
    code: str,
    completion: Callable[..., dict[str, object]],
    read: Callable[..., Any],
) -> None:
    lines = [completion("q1"), completion("q2", **body), completion("q3")]
    outcome = read(lines, endpoint=COMPLETIONS)
    assert outcome.codes() == {2: code}
    assert [row["custom_id"] for row in outcome.usable] == ["q1", "q3"]


@pytest.mark.parametrize("body", USABLE_CHAT, ids=name)
def test_a_chat_line_is_usable(
    body: dict[str, object],
    chat: Callable[..., dict[str, object]],
    read: Callable[..., Any],
) -> None:
    assert read([chat("q1"), chat("q2", **body), chat("q3")]).refused == []


@pytest.mark.parametrize("body", USABLE_COMPLETIONS, ids=name)
def test_a_completions_line_is_usable(
    body: dict[str, object],
    completion: Callable[..., dict[str, object]],
    read: Callable[..., Any],
) -> None:
    lines = [completion("q1"), completion("q2", **body)]
    assert read(lines, endpoint=COMPLETIONS).refused == []


def test_a_message_names_field_finding_and_range(
    chat: Callable[..., dict[str, object]], read: Callable[..., Any]
) -> None:
    lines = [
        chat("q1"),
        chat("q2", temperature="x" * 1_000),
        chat("q3", messages=[{"role": "user", "content": {"a": 1}}]),
        chat("q4", chat_template_kwargs={"thinking": True}),
    ]
    messages = [row["error"]["message"] for row in read(lines).refused]
    assert messages == [
        f'temperature must be a number above 0 and up to 4; found "{"x" * 60}"....',
        "messages[0].content must be a text, a list of text parts, or null; "
        "found an object of 1 member.",
        'chat_template_kwargs has "thinking", which the model\'s chat template does not read; '
        "it reads enable_thinking.",
    ]
