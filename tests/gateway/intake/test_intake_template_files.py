"""Where a repository may keep its chat templates, held to transformers' own loader."""

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from gateway.catalog.lookup import Catalog
from gateway.intake.tokenizer import ModelTokenizer, TokenizerUnusable
from protocol.architectures import SUPPORTED_ARCHITECTURES

USER: dict[str, Any] = {"role": "user", "content": "hello"}
TOOL: dict[str, Any] = {"type": "function", "function": {"name": "f"}}
FILE, TOOL_FILE = "chat_template.jinja", "additional_chat_templates/tool_use.jinja"
OTHER_FILE = "additional_chat_templates/rag.jinja"

PLAIN, WITH_TOOLS, CONFIGURED = "plain {{ messages[0].content }}", "{{ tools | length }}", "config"
NAMED = [
    {"name": "default", "template": PLAIN},
    {"name": "tool_use", "template": WITH_TOOLS},
    {"name": "rag", "template": "{{ documents }}"},
]

LAYOUTS: dict[str, dict[str, str]] = {
    "no template": {},
    "file": {FILE: PLAIN},
    "config": {"tokenizer_config.json": json.dumps({"chat_template": PLAIN})},
    "named": {"tokenizer_config.json": json.dumps({"chat_template": NAMED})},
    "named, none for tools": {"tokenizer_config.json": json.dumps({"chat_template": NAMED[:1]})},
    "named, for tools alone": {"tokenizer_config.json": json.dumps({"chat_template": NAMED[1:]})},
    "files": {FILE: PLAIN, TOOL_FILE: WITH_TOOLS, OTHER_FILE: "{{ documents }}"},
    "file before config": {
        FILE: PLAIN,
        "tokenizer_config.json": json.dumps({"chat_template": CONFIGURED}),
    },
    "files before named": {
        FILE: CONFIGURED,
        TOOL_FILE: PLAIN,
        "tokenizer_config.json": json.dumps({"chat_template": NAMED}),
    },
    "tool file hides config": {
        TOOL_FILE: WITH_TOOLS,
        "tokenizer_config.json": json.dumps({"chat_template": CONFIGURED}),
    },
}


def repository(folder: Path, tokenizer: Tokenizer, files: dict[str, str]) -> Path:
    """A folder with the tokenizer and these files."""
    folder.mkdir()
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text("{}")
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return folder


def rendered(folder: Path, tools: list[dict[str, Any]] | None) -> str | None:
    """What the gateway renders with the folder's template; None where it has none."""
    template = ModelTokenizer(folder).template(with_tools=tools is not None)
    return None if template is None else template.render([USER], tools, {}, 0)


@pytest.mark.parametrize("tools", [None, [TOOL, TOOL]], ids=["plain", "tools"])
@pytest.mark.parametrize("name", LAYOUTS)
def test_the_template_is_the_one_that_transformers_takes(
    name: str, tools: list[dict[str, Any]] | None, tmp_path: Path, tokenizer: Tokenizer
) -> None:
    folder = repository(tmp_path / "model", tokenizer, LAYOUTS[name])
    theirs = PreTrainedTokenizerFast.from_pretrained(str(folder))
    try:
        expected = theirs.apply_chat_template([USER], tools=tools, tokenize=False)
    except ValueError:  # it has no template for this
        expected = None
    assert rendered(folder, tools) == expected


@pytest.mark.parametrize(
    ("files", "text"),
    [
        ({"chat_template.json": json.dumps({"chat_template": PLAIN})}, "plain hello"),
        ({"chat_template.json": '{"chat_template": 5}'}, None),
        ({"chat_template.json": json.dumps({"chat_template": "x"}), FILE: PLAIN}, "plain hello"),
    ],
)
def test_a_processors_template_comes_last(
    files: dict[str, str], text: str | None, tmp_path: Path, tokenizer: Tokenizer
) -> None:
    assert rendered(repository(tmp_path / "model", tokenizer, files), None) == text


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (FILE, b"\xff", "chat_template.jinja is not UTF-8"),
        (TOOL_FILE, b"\xff", "tool_use.jinja is not UTF-8"),
        (TOOL_FILE, b"{% if %}", "does not compile"),
        ("chat_template.json", b"[" * 100_000, "chat_template.json is not JSON"),
        ("tokenizer_config.json", b"[" * 100_000, "tokenizer_config.json is not JSON"),
    ],
)
def test_a_file_that_is_none_is_named(
    name: str, content: bytes, said: str, tmp_path: Path, tokenizer: Tokenizer
) -> None:
    folder = repository(tmp_path / "model", tokenizer, {name: ""})
    (folder / name).write_bytes(content)
    with pytest.raises(TokenizerUnusable, match=said):
        ModelTokenizer(folder)


async def test_the_template_for_tools_comes_from_the_hub(put: Any, catalog: Catalog) -> None:
    commit = put(extra={TOOL_FILE: WITH_TOOLS, OTHER_FILE: "x"})
    model = await catalog.model("reliquary/tiny", commit, SUPPORTED_ARCHITECTURES)
    assert rendered(model.folder, [TOOL]) == "1"
    assert not (model.folder / OTHER_FILE).exists()
