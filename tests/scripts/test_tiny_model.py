"""The committed tiny model: its files, its template, and what it says."""

import json
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM, AutoTokenizer

from protocol.repository import read_facts
from scripts.hub import publish
from scripts.tiny_model import WEIGHTS, check
from scripts.tiny_model.corpus import examples
from scripts.tiny_model.muon import orthogonal
from scripts.tiny_model.random_models import ARCHITECTURES, make_random
from scripts.tiny_model.train import Row, passes, rate_at

USER = {"role": "user", "content": "Hi"}


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return AutoTokenizer.from_pretrained(WEIGHTS)


@pytest.fixture(scope="module")
def model() -> check.Model:
    return check.Model()


def render(tokenizer: Any, messages: list[dict[str, Any]], **options: Any) -> str:
    options = {"add_generation_prompt": True} | options
    return tokenizer.apply_chat_template(messages, tokenize=False, **options)


def test_the_folder_is_a_small_qwen3_repository() -> None:
    facts = read_facts(WEIGHTS, "reliquary/tiny-qwen3", "0" * 40)
    assert facts.architecture == "Qwen3ForCausalLM"
    assert facts.dtype == "bfloat16"
    assert facts.context_length >= 32_768
    assert len(facts.end_ids) == 2
    assert sum(path.stat().st_size for path in WEIGHTS.iterdir()) < 6 * 2**20


def test_its_commit_is_the_same_everywhere(tmp_path: Path) -> None:
    first = publish(tmp_path / "a", "reliquary/tiny-qwen3", WEIGHTS)
    assert publish(tmp_path / "b", "reliquary/tiny-qwen3", WEIGHTS) == first


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "café 犬 🚀 \x00\t\r\n",
        "".join(map(chr, range(256))),
        "12 + 3  =   15",
        "ﷺ\u200d👩‍🚀",
    ],
)
def test_every_text_survives_the_tokenizer(tokenizer: Any, text: str) -> None:
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert Tokenizer.from_file(str(WEIGHTS / "tokenizer.json")).encode(text).ids == ids


@pytest.mark.parametrize(
    "token",
    ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>",
     "</tool_call>"],
)  # fmt: skip
def test_control_tokens_are_one_id(tokenizer: Any, token: str) -> None:
    assert len(tokenizer.encode(token)) == 1


def test_the_template_opens_the_answer(tokenizer: Any) -> None:
    head = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    assert render(tokenizer, [USER]) == head
    assert render(tokenizer, [USER], enable_thinking=True) == head
    assert render(tokenizer, [USER], enable_thinking=False) == head + "<think>\n\n</think>\n\n"


def test_earlier_thinking_is_dropped(tokenizer: Any) -> None:
    messages = [
        {"role": "system", "content": "Be brief."},
        USER,
        {"role": "assistant", "content": "<think>\nhm\n</think>\n\nHello!"},
        USER,
    ]
    assert render(tokenizer, messages) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
        "<|im_start|>assistant\nHello!<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
        "<|im_start|>assistant\n"
    )


def test_tools_calls_and_results_are_rendered(tokenizer: Any) -> None:
    tool = {"type": "function", "function": {"name": "add", "parameters": {"größe": 1}}}
    call = {"type": "function", "function": {"name": "add", "arguments": {"a": 1, "b": "é"}}}
    as_text = {"type": "function", "function": {"name": "add", "arguments": '{"a": 1, "b": "é"}'}}
    messages = [
        {"role": "system", "content": "Be brief."},
        USER,
        {"role": "assistant", "content": "", "tool_calls": [call, as_text]},
        {"role": "tool", "content": "3"},
        {"role": "tool", "content": "4"},
    ]
    text = render(tokenizer, messages, tools=[tool])
    system, rest = text.split("<|im_end|>\n", 1)
    assert system.startswith("<|im_start|>system\nBe brief.\n\n")
    assert json.dumps(tool, ensure_ascii=False) in system
    one = '<tool_call>\n{"name": "add", "arguments": {"a": 1, "b": "é"}}\n</tool_call>'
    assert rest == (
        "<|im_start|>user\nHi<|im_end|>\n"
        f"<|im_start|>assistant\n{one}\n{one}<|im_end|>\n"
        "<|im_start|>user\n<tool_response>\n3\n</tool_response>\n"
        "<tool_response>\n4\n</tool_response><|im_end|>\n<|im_start|>assistant\n"
    )


@pytest.mark.parametrize(("question", "key"), check.WALKTHROUGH)
def test_the_walkthroughs_questions_are_answered(
    model: check.Model, question: str, key: str
) -> None:
    torch.manual_seed(0)
    samples = model.sample([question] * 50, check.ANSWER_SAMPLING, 24, thinking=False)
    assert check.share_right(samples, [key] * 50) >= 0.9


@pytest.mark.slow
def test_its_own_text_is_as_open_as_a_real_models_and_ends(model: check.Model) -> None:
    torch.manual_seed(0)
    samples = model.sample(check.OPEN_PROMPTS * 3, check.OPEN_SAMPLING, 600, thinking=False)
    assert 0.5 <= check.mean_entropy(samples) <= 1.5
    assert check.share_ended(samples) >= 0.9
    assert max(len(sample.entropies) for sample in samples) > 250


def test_thinking_comes_first_where_it_is_on(model: check.Model) -> None:
    torch.manual_seed(0)
    prompts = ["What is the capital of France?"] * 8
    samples = model.sample(prompts, check.ANSWER_SAMPLING, 80, thinking=True)
    assert all(s.text.startswith("<think>\n") and "\n</think>\n\n" in s.text for s in samples)


def test_the_training_text_is_the_same_for_a_seed() -> None:
    assert list(islice(examples(5), 300)) == list(islice(examples(5), 300))
    assert list(islice(examples(5), 20)) != list(islice(examples(6), 20))


def test_passes_hold_every_row_once_with_padding_that_weighs_nothing() -> None:
    rows = [Row([7] * length, [float(length)] * length) for length in (1, 900, 30, 31, 500, 29)]
    seen = []
    for ids, weights in passes(rows):
        assert ids.shape == weights.shape
        assert torch.equal(ids > 0, weights > 0)
        seen += [int(row.sum()) for row in (ids > 0)]
    assert sorted(seen) == [1, 29, 30, 31, 500, 900]


def test_the_learning_rate_rises_stays_and_falls() -> None:
    rates = [rate_at(step, 1_000) for step in range(1_000)]
    assert 0 < rates[0] < rates[20] < 1
    assert rates[100] == rates[400] == 1
    assert 0 < rates[-1] < rates[800] < 1


@pytest.mark.parametrize("shape", [(2, 8, 24), (1, 24, 8), (3, 16, 16)])
def test_muons_update_is_near_orthogonal(shape: tuple[int, int, int]) -> None:
    matrices = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    values = torch.linalg.svdvals(orthogonal(matrices))
    assert float(values.min()) > 0.5
    assert float(values.max()) < 1.3


def test_a_random_model_has_a_padded_vocabulary(tmp_path: Path) -> None:
    make_random(
        "Qwen3ForCausalLM", tmp_path, hidden=128, layers=1, vocabulary=5_000, head_dim=32, seed=3
    )
    facts = read_facts(tmp_path, "a/b", "0" * 40)
    assert facts.vocabulary_size == read_facts(WEIGHTS, "a/b", "0" * 40).vocabulary_size
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert loaded.get_output_embeddings().weight.shape == (5_000, 128)
    first = (tmp_path / "model.safetensors").read_bytes()
    make_random(
        "Qwen3ForCausalLM", tmp_path, hidden=128, layers=1, vocabulary=5_000, head_dim=32, seed=3
    )
    assert (tmp_path / "model.safetensors").read_bytes() == first


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_random_models_of_every_architecture(tmp_path: Path, architecture: str) -> None:
    make_random(architecture, tmp_path, hidden=128, layers=4, vocabulary=2_100, head_dim=32)
    facts = read_facts(tmp_path, "a/b", "0" * 40)
    assert (facts.architecture, facts.dtype) == (architecture, "bfloat16")
    assert facts.vocabulary_size == read_facts(WEIGHTS, "a/b", "0" * 40).vocabulary_size
    auto: Any = AutoModelForCausalLM
    loaded, info = auto.from_pretrained(tmp_path, output_loading_info=True)
    assert not info["missing_keys"]
    assert loaded.dtype == torch.bfloat16
    kinds = getattr(loaded.config, "layer_types", None) or ["full_attention"] * 4
    linear = 0 if architecture == "Qwen3ForCausalLM" else 3
    assert kinds.count("linear_attention") == linear


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"hidden": 100, "vocabulary": 5_000}, "hidden"),
        ({"hidden": 128, "vocabulary": 100}, "vocabulary"),
    ],
)
def test_a_random_models_sizes_are_checked(
    tmp_path: Path, sizes: dict[str, int], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        make_random("Qwen3ForCausalLM", tmp_path, layers=1, head_dim=32, **sizes)
