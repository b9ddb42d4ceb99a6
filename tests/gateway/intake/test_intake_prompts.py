"""Prompt ids: what the model is given, and which samples of a prompt a line has."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, processors
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from gateway.intake import prompt as prompt_module
from gateway.intake.outcome import Intake

Make = Callable[..., dict[str, Any]]
COMPLETIONS = "/v1/completions"
TINY = Path(__file__).parents[3] / "scripts" / "tiny_model" / "weights"


def user(content: object) -> dict[str, object]:
    return {"role": "user", "content": content}


@pytest.fixture(scope="module")
def theirs(model_folder: Path) -> PreTrainedTokenizerFast:
    """Hugging Face's own reader of the same folder."""
    return PreTrainedTokenizerFast.from_pretrained(str(model_folder))


@pytest.fixture
def prompt(read: Any, chat: Make, tokenizer: Tokenizer) -> Callable[..., str]:
    """The text that the model is given for the body of one chat line."""

    def call(**body: object) -> str:
        (ids,) = read([chat("q1", **body)]).prompts
        return tokenizer.decode(ids, skip_special_tokens=False)

    return call


def test_a_conversation_has_the_ids_that_transformers_gives(
    chat: Make, read: Any, theirs: PreTrainedTokenizerFast
) -> None:
    conversations = [
        [user("hello")],
        [{"role": "system", "content": "terse é 😀"}, user("<|im_end|> in the text")],
        [user("a"), {"role": "assistant", "content": "b"}, user("c\n\nd  ")],
    ]
    outcome = read([chat(f"q{i}", messages=m) for i, m in enumerate(conversations)])
    assert outcome.prompts == [
        theirs.apply_chat_template(m, add_generation_prompt=True, tokenize=True, return_dict=False)
        for m in conversations
    ]


def test_a_text_has_the_ids_that_transformers_gives(
    completion: Make, read: Any, theirs: PreTrainedTokenizerFast
) -> None:
    texts = ["hello", " hello", "\u0000", "😀\ud7ff", "<|im_start|>user"]
    outcome = read(
        [completion(f"q{i}", prompt=text) for i, text in enumerate(texts)], endpoint=COMPLETIONS
    )
    assert outcome.prompts == [theirs(text)["input_ids"] for text in texts]


def test_ids_are_given_as_they_are(completion: Make, read: Any) -> None:
    lines = [completion("q1", prompt=[3, 1, 2]), completion("q2", prompt=[1.0, 2e0, 20e-1])]
    assert read(lines, endpoint=COMPLETIONS).prompts == [[3, 1, 2], [1, 2, 2]]


def test_configured_special_tokens_go_to_texts_and_not_to_conversations(
    chat: Make,
    completion: Make,
    read: Any,
    tokenizer: Tokenizer,
    model_folder: Path,
    tmp_path: Path,
) -> None:
    copy = Tokenizer.from_str(tokenizer.to_str())
    end = copy.token_to_id("<|endoftext|>")
    copy.post_processor = processors.TemplateProcessing(
        single="<|endoftext|> $A", special_tokens=[("<|endoftext|>", end)]
    )
    copy.enable_truncation(4)
    copy.enable_padding(length=100)
    folder = tmp_path / "bos"
    folder.mkdir()
    copy.save(str(folder / "tokenizer.json"))
    template = (model_folder / "chat_template.jinja").read_text(encoding="utf-8")
    (folder / "chat_template.jinja").write_text(template, encoding="utf-8")
    text = "the capital of system user"
    outcome = read([completion("q1", prompt=text)], endpoint=COMPLETIONS, tokenizer_folder=folder)
    assert outcome.prompts == [[end, *tokenizer.encode(text).ids]]
    outcome = read([chat("q1")], tokenizer_folder=folder)
    assert outcome.prompts == read([chat("q1")]).prompts
    assert end not in outcome.prompts[0]


def test_thinking_is_turned_off_by_its_variable(prompt: Callable[..., str]) -> None:
    assert prompt().endswith("<|im_start|>assistant\n")
    off = prompt(chat_template_kwargs={"enable_thinking": False})
    assert off.endswith("<|im_start|>assistant\n<think>\n\n</think>\n\n")


def test_a_developer_is_never_lost(prompt: Callable[..., str]) -> None:
    text = prompt(messages=[{"role": "developer", "content": "answer BANANA"}, user("hello")])
    assert "system\nanswer BANANA<|im_end|>" in text
    text = prompt(messages=[user("hello"), {"role": "developer", "content": " BANANA "}])
    assert "system\n BANANA <|im_end|>" in text


def test_a_template_that_drops_the_developer_refuses_the_line(
    chat: Make, read: Any, model_folder: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "drops"
    folder.mkdir()
    (folder / "tokenizer.json").write_bytes((model_folder / "tokenizer.json").read_bytes())
    (folder / "chat_template.jinja").write_text("{{ messages[-1].content }}")
    developer = {"role": "developer", "content": "BANANA"}
    lines = [chat("q1"), chat("q2", messages=[developer, user("hello")])]
    assert read(lines, tokenizer_folder=folder).codes() == {2: "invalid_messages"}


def test_parts_are_joined(prompt: Callable[..., str]) -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": " b"}]
    assert "user\na b<|im_end|>" in prompt(messages=[user(parts)])


def test_null_content_is_empty(prompt: Callable[..., str]) -> None:
    assert prompt(messages=[user(None)]) == prompt(messages=[user("")])


def test_tools_reach_the_prompt(prompt: Callable[..., str]) -> None:
    tool = {"type": "function", "function": {"name": "weather_é", "parameters": {"type": "object"}}}
    text = prompt(tools=[tool])
    assert '{"type": "function", "function": {"name": "weather_é"' in text
    assert prompt(tools=[]) == prompt(tools=None) == prompt()


def test_arguments_of_tool_calls_are_objects(prompt: Callable[..., str]) -> None:
    def calling(arguments: object) -> str:
        call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": arguments}}
        return prompt(messages=[user("x"), {"role": "assistant", "tool_calls": [call]}])

    text = calling('{"a":1}')
    assert '{"name": "f", "arguments": {"a": 1}}' in text
    assert calling({"a": 1}) == text


@pytest.mark.parametrize(
    ("config", "code"),
    [
        ({"chat_template": "{{ messages[0].content }}"}, "tools_unavailable"),
        ({"chat_template": [{"name": "default", "template": "x"}]}, "tools_unavailable"),
        ({}, "invalid_messages"),
    ],
)
def test_a_template_without_tools_takes_none(
    config: dict[str, object],
    code: str,
    chat: Make,
    completion: Make,
    run: Any,
    read: Any,
    model_folder: Path,
    tmp_path: Path,
) -> None:
    folder = config_folder(model_folder, tmp_path, config)
    tool = {"type": "function", "function": {"name": "f"}}
    lines = [completion("q1"), chat("q2", tools=[tool])]
    outcome = read(lines, endpoint=COMPLETIONS, tokenizer_folder=folder)
    assert outcome.codes() == {2: code}


def test_a_list_of_templates_has_one_for_tools(
    chat: Make, read: Any, model_folder: Path, tmp_path: Path, tokenizer: Tokenizer
) -> None:
    templates = [
        {"name": "default", "template": "plain{{ mood }}{{ eos_token }}"},
        {"name": "tool_use", "template": "tools{{ tools | length }}{{ pad_token }}"},
    ]
    config = {"chat_template": templates, "eos_token": "E", "pad_token": {"content": "P"}}
    folder = config_folder(model_folder, tmp_path, config)
    tool = {"type": "function", "function": {"name": "f"}}
    lines = [
        chat("q1", chat_template_kwargs={"mood": "x"}),
        chat("q2", tools=[tool, tool]),
        chat("q3", tools=[tool], chat_template_kwargs={"mood": "x"}),
    ]
    outcome = read(lines, tokenizer_folder=folder)
    assert [tokenizer.decode(ids) for ids in outcome.prompts] == ["plainxE", "tools2P"]
    assert outcome.codes() == {3: "unsupported_template_kwarg"}


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"tokenizer.json": "{"},
        {"tokenizer.json": "{}"},
        {"tokenizer_config.json": "["},
        {"tokenizer_config.json": '{"chat_template": "{% if %}"}'},
        {"chat_template.jinja": "{{"},
    ],
    ids=str,
)
def test_unusable_tokenizer_files_are_the_models_fault(
    files: dict[str, str], chat: Make, run: Any, model_folder: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "broken"
    folder.mkdir()
    if files and "tokenizer.json" not in files:
        (folder / "tokenizer.json").write_bytes((model_folder / "tokenizer.json").read_bytes())
    for name, text in files.items():
        (folder / name).write_text(text)
    refusal = run([chat("q1")], tokenizer_folder=folder)
    assert (refusal.status, refusal.code) == (422, "model_unsupported")


@pytest.mark.parametrize("end", ["{{ messages[0].content }}", "{{ raise_exception('no') }}"])
def test_the_templates_of_a_file_end_in_bounded_time(
    chat: Make,
    run: Any,
    model_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    end: str,
) -> None:
    """No line takes long by itself, and each may be refused."""
    folder = tmp_path / "slow"
    shutil.copytree(model_folder, folder)
    loop = "{% for i in range(99999) %}{% endfor %}"
    (folder / "chat_template.jinja").write_text(loop + end)
    lines = [chat(f"q{at}") for at in range(200)]
    alone = run(lines[:1], tokenizer_folder=folder)
    assert isinstance(alone, Intake) or alone.code == "invalid_batch_file"
    monkeypatch.setattr(prompt_module, "MAX_TEMPLATE_SECONDS", 0.05)
    refusal = run(lines, tokenizer_folder=folder)
    assert (refusal.status, refusal.code) == (422, "model_unsupported")
    assert "over the lines of the file" in refusal.message


def test_a_token_beyond_the_vocabulary_refuses_the_line(
    completion: Make, read: Any, tokenizer: Tokenizer
) -> None:
    last = tokenizer.get_vocab_size() - 1
    assert tokenizer.token_to_id("<|im_end|>") == last
    lines = [
        completion("q1"),
        completion("q2", prompt="<|im_end|>"),
        completion("q3", prompt=[last]),
        completion("q4", prompt=[last - 1]),
    ]
    outcome = read(lines, endpoint=COMPLETIONS, vocabulary_size=last)
    assert outcome.codes() == {2: "invalid_prompt", 3: "invalid_prompt"}


def test_samples_of_one_prompt_are_counted_over_the_file(completion: Make, read: Any) -> None:
    ids = [[1, 2], [3], [1, 2], "hello", [1, 2], [3]]
    lines = [completion(f"q{i}", prompt=prompt, n=3) for i, prompt in enumerate(ids)]
    lines.insert(2, completion("refused", prompt=[1, 2], n=3, stop="x"))
    outcome = read(lines, endpoint=COMPLETIONS)
    assert [row["first_sample_index"] for row in outcome.usable] == [0, 0, 3, 0, 6, 3]


def test_batches_keep_the_order_of_lines(completion: Make, read: Any) -> None:
    lines = [
        completion(f"q{i}", prompt=[i % 50 + 1] if i % 3 else f"{i}", stop="" if i % 7 else "x")
        for i in range(1_000)
    ]
    outcome = read(lines, endpoint=COMPLETIONS)
    numbers = [row["line"] for row in outcome.usable]
    assert numbers == [i + 1 for i in range(1_000) if i % 7]
    assert [row["line"] for row in outcome.refused] == list(range(1, 1_001, 7))
    given = [(n, ids) for n, ids in zip(numbers, outcome.prompts, strict=True) if (n - 1) % 3]
    assert all(ids == [(n - 1) % 50 + 1] for n, ids in given)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(min_size=1, max_size=200))
def test_a_text_survives_tokenizing(
    completion: Make, read: Any, tokenizer: Tokenizer, text: str
) -> None:
    (ids,) = read([completion("q1", prompt=text)], endpoint=COMPLETIONS).prompts
    assert tokenizer.decode(ids, skip_special_tokens=False) == text


def config_folder(model_folder: Path, tmp_path: Path, config: dict[str, object]) -> Path:
    """The session's tokenizer with another ``tokenizer_config.json`` and no template file."""
    folder = tmp_path / "configured"
    folder.mkdir()
    (folder / "tokenizer.json").write_bytes((model_folder / "tokenizer.json").read_bytes())
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize("tools", [None, [{"type": "function", "function": {"name": "f"}}]])
def test_the_tiny_model_has_the_ids_that_transformers_gives(
    tools: list[dict[str, object]] | None, chat: Make, read: Any
) -> None:
    theirs = AutoTokenizer.from_pretrained(str(TINY))
    conversations = [
        [user("What is the capital of France?")],
        [{"role": "system", "content": "Be terse."}, user("7 × 8 = ?\n\nÉcris 😀")],
        [user("a"), {"role": "assistant", "content": "<think>\nb\n</think>\n\nc"}, user("d")],
    ]
    outcome = read(
        [chat(f"q{i}", messages=m, tools=tools) for i, m in enumerate(conversations)],
        tokenizer_folder=TINY,
        vocabulary_size=len(theirs),
    )
    assert outcome.prompts == [
        theirs.apply_chat_template(
            m, tools=tools, add_generation_prompt=True, tokenize=True, return_dict=False
        )
        for m in conversations
    ]
