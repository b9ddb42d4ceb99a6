"""Chat templates: rendered as Hugging Face renders them, within bounds."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import Environment
from transformers.utils.chat_template_utils import render_jinja_template

from gateway.intake import template as template_module
from gateway.intake.refusal import LineRefused
from gateway.intake.template import ChatTemplate, TemplateUnusable
from gateway.intake.variables import read_variables

CLOCK = 1_762_685_000  # 2025-11-09 10:43:20 UTC
USER = {"role": "user", "content": "hello"}
TOOL = {"type": "function", "function": {"name": "é", "parameters": {"b": 1, "a": [1.5]}}}
CALL = {"type": "function", "function": {"name": "f", "arguments": {"x": "<&>"}}}

CONVERSATIONS: list[list[dict[str, Any]]] = [
    [USER],
    [{"role": "system", "content": "Be\nterse."}, USER],
    [USER, {"role": "assistant", "content": "<think>\nhm\n</think>\n\nyes"}, USER],
    [
        USER,
        {"role": "assistant", "content": "", "tool_calls": [CALL, CALL]},
        {"role": "tool", "content": "1"},
        {"role": "tool", "content": "2"},
    ],
]


def source(name: str) -> str:
    """The tiny model's template, and one that uses what else Hugging Face offers."""
    if name == "tiny":
        path = Path(__file__).parents[3] / "scripts" / "tiny_model" / "template.jinja"
        return path.read_text(encoding="utf-8")
    return (
        "{{ bos_token }}\n"
        "  {% for message in messages %}\n"
        "    {% if message.role == 'tool' %}{% continue %}{% endif %}\n"
        "[{{ message.role }}] {% generation %}{{ message.content | trim }}{% endgeneration %}\n"
        "  {% endfor %}\n"
        "{% if tools %}{{ tools | tojson(indent=2) }}{{ tools[0] | tojson }}{% endif %}\n"
        "{% if documents is none %}no documents{% endif %}"
        "{% set ns = namespace(x=1) %}{% set ns.x = ns.x + 1 %}{{ ns.x * 3 }}{{ '-' * 3 }}"
        "{% if add_generation_prompt %}[assistant]{% endif %}{{ mood | default('calm') }}"
    )


@pytest.mark.parametrize("tools", [None, [TOOL]], ids=["plain", "tools"])
@pytest.mark.parametrize("messages", CONVERSATIONS)
@pytest.mark.parametrize(
    ("name", "variables"),
    [("tiny", {}), ("tiny", {"enable_thinking": False}), ("own", {}), ("own", {"mood": "glad"})],
)
def test_renders_what_transformers_renders(
    name: str,
    variables: dict[str, object],
    messages: list[dict[str, Any]],
    tools: list[dict[str, Any]] | None,
) -> None:
    text = source(name)
    expected, _ = render_jinja_template(
        [messages],
        tools=tools,
        chat_template=text,
        add_generation_prompt=True,
        bos_token="<s>",
        **variables,
    )
    rendered = ChatTemplate(text, {"bos_token": "<s>"}).render(messages, tools, variables, CLOCK)
    assert rendered == expected[0]


def test_members_are_looked_up_as_transformers_looks_them_up() -> None:
    text = (
        "{% set m = messages[0] %}{{ m.get is string }}{{ m['get'] }}{{ m.get('role') }}"
        "{{ m.nothing is defined }}{{ m.nothing }}{{ m.keys() | list }}{{ m.content.nothing }}"
        "{{ m.items() | length }}{{ m.__class__ is defined }}{{ m.content.title() }}"
    )
    message = {**USER, "get": "own", "items": 5}
    expected, _ = render_jinja_template([[message]], chat_template=text)
    assert ChatTemplate(text, {}).render([message], None, {}, CLOCK) == expected[0]


def test_the_clock_is_the_one_given() -> None:
    template = ChatTemplate("{{ strftime_now('%d %B %Y %H:%M:%S') }}", {})
    assert template.render([USER], None, {}, CLOCK) == "09 November 2025 10:43:20"


def test_what_a_template_reads() -> None:
    tiny = ChatTemplate(source("tiny"), {})
    assert (tiny.variables, tiny.takes_tools) == ({"enable_thinking"}, True)
    own = ChatTemplate(source("own"), {"bos_token": "<s>"})
    assert (own.variables, own.takes_tools) == ({"mood"}, True)
    assert not ChatTemplate("{{ messages }}", {}).takes_tools


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        ("{{ a }}{% set a = 1 %}{{ a }}", {"a"}),
        ("{% set a = 1 %}{{ a }}", set()),
        ("{% set a = a %}{{ a }}", {"a"}),
        ("{% if a is not defined %}{% set a = 1 %}{% endif %}{{ a }}", {"a"}),
        ("{% if x %}{% set a = 1 %}{% endif %}{{ a }}", {"a", "x"}),
        ("{% if x %}{% set a = 1 %}{% else %}{% set a = 2 %}{% endif %}{{ a }}", {"x"}),
        ("{% if x %}{% set a=1 %}{% elif y %}{% set a=2 %}{% endif %}{{ a }}", {"a", "x", "y"}),
        ("{% set a = 1 %}{% if x %}{% set a = 2 %}{% endif %}{{ a }}", {"x"}),
        ("{% for a in b %}{{ a }}{{ loop.index }}{% endfor %}{{ a }}", {"a", "b"}),
        ("{% for a in b if a.x %}{% set c = a %}{% endfor %}{{ c }}", {"b", "c"}),
        ("{% for a in b %}{% else %}{{ a }}{% endfor %}", {"a", "b"}),
        ("{% macro f(a, c=d) %}{{ a }}{{ e }}{{ caller() }}{% endmacro %}{{ f(1) }}", {"d", "e"}),
        ("{% call(a) f(b) %}{{ a }}{{ c }}{% endcall %}", {"b", "c", "f"}),
        ("{% with a = b %}{{ a }}{% endwith %}{{ a }}", {"a", "b"}),
        ("{% set a %}{{ b }}{% endset %}{{ a }}", {"b"}),
        ("{% filter upper %}{{ b }}{% endfilter %}", {"b"}),
        ("{% set n = namespace() %}{% set n.x = y %}{{ n.x }}", {"namespace", "y"}),
        ("{% set n.x = 1 %}", {"n"}),
        ("{% set a, b = c %}{{ a }}{{ b }}", {"c"}),
        ("{{ x.y[z](w, k=v) | map(attribute=u) }}{{ p if q else r }}", set("xzwvupqr")),
        ("{% block main %}{{ a }}{% endblock %}", {"a"}),
    ],
)
def test_a_variable_is_read_where_it_may_be_unset(text: str, reads: set[str]) -> None:
    assert read_variables(Environment().parse(text)) == reads


@pytest.mark.parametrize(
    ("text", "role"), [("{{ messages[0].role }}", "system"), ("developer: {{ 1 }}", "none")]
)
def test_developer_is_given_as_system_where_unknown(text: str, role: str) -> None:
    developer = {"role": "developer", "content": "x"}
    rendered = ChatTemplate(text, {}).render([developer], None, {}, CLOCK)
    assert rendered == {"system": "system", "none": "developer: 1"}[role]


def test_developer_stays_where_known() -> None:
    text = "{% for m in messages %}{% if m.role in ['developer'] %}D{{ m.content }}{% endif %}"
    template = ChatTemplate(text + "{% endfor %}", {})
    assert template.render([{"role": "developer", "content": "x"}], None, {}, CLOCK) == "Dx"


def test_a_template_may_refuse_a_conversation() -> None:
    template = ChatTemplate("{{ raise_exception('roles must alternate') }}", {})
    with pytest.raises(LineRefused, match="roles must alternate") as refusal:
        template.render([USER], None, {}, CLOCK)
    assert refusal.value.code == "invalid_messages"


@pytest.mark.parametrize(
    "text",
    [
        "{{ 1 / 0 }}",
        "{{ messages.nothing.more }}",
        "{{ 'a' + 1 }}",
        "{{ messages[0]['content'] | int + [] }}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{{ ''.__class__.__mro__ }}{{ x.y.z }}",
        "{{ messages.append(1) }}",
        "{{ messages[0].update({'role': 'x'}) }}",
        "{{ raise_exception.__globals__['json'] }}",
        "{{ 9 ** 9 ** 9 }}",
        "{{ 'a' * 10 ** 9 }}",
        "{% set n = namespace(x=9) %}{% for i in range(99) %}{% set n.x = n.x * n.x %}{% endfor %}",
        "{{ '\\ud800' }}",
        "{{ 10 ** 9 * [1] }}",
        "{{ range(10 ** 9) | list }}",
        "{% include 'x' %}",
    ],
)
def test_a_template_that_errs_refuses_the_line(text: str) -> None:
    with pytest.raises((LineRefused, TemplateUnusable)):
        ChatTemplate(text, {}).render([dict(USER)], None, {}, CLOCK)


@pytest.mark.parametrize("text", ["{% if %}", "{{ 1 +", "{% nonsense %}", "{% for %}"])
def test_a_text_that_is_no_template(text: str) -> None:
    with pytest.raises(TemplateUnusable, match="compile"):
        ChatTemplate(text, {})


def test_a_template_ends_in_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(template_module, "MAX_CPU_SECONDS", 0.2)
    loop = "{% for i in range(99999) %}"
    template = ChatTemplate(loop * 3 + "{% endfor %}" * 3, {})
    with pytest.raises(TemplateUnusable, match="bounded time"):
        template.render([USER], None, {}, CLOCK)


def test_a_rendering_is_of_bounded_length() -> None:
    template = ChatTemplate("{% for i in range(99999) %}{{ messages[0].content }}{% endfor %}", {})
    with pytest.raises(LineRefused) as refusal:
        template.render([{"role": "user", "content": "x" * 1_000}], None, {}, CLOCK)
    assert refusal.value.code == "context_too_long"


@given(st.text())
def test_content_reaches_the_text_unchanged(content: str) -> None:
    template = ChatTemplate("{% for m in messages %}[{{ m.content }}]{% endfor %}", {})
    assert (
        template.render([{"role": "user", "content": content}], None, {}, CLOCK) == f"[{content}]"
    )
