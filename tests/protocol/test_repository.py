"""Repositories read through ``huggingface_hub`` from a hub that runs in this process."""

import json
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from protocol import repository
from protocol.repository import (
    Gated,
    ModelFacts,
    NotFound,
    Private,
    RevisionNotFound,
    Unreachable,
    Unsupported,
    download,
    hub,
    read_facts,
    resolve_revision,
    weight_bytes,
)
from scripts.hub import HubServer, publish, set_access

MODEL = "reliquary/sample"
REVISION = "0123456789" * 4
TOKEN = "hf_sampletoken"
CONFIG: dict[str, Any] = {
    "architectures": ["Qwen3ForCausalLM"],
    "vocab_size": 128,
    "max_position_embeddings": 32_768,
    "dtype": "bfloat16",
    "eos_token_id": 5,
}
TOKENIZER: dict[str, Any] = {
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 98}},
    "added_tokens": [{"id": 99, "content": "<|im_end|>"}],
}
FACTS = ModelFacts(MODEL, REVISION, "Qwen3ForCausalLM", 100, (99, 97), 32_768, "bfloat16")


def write(folder: Path, **files: object) -> Path:
    """Write a repository's JSON files; ``None`` leaves a file out, text is written as it is."""
    folder.mkdir(parents=True, exist_ok=True)
    contents: dict[str, object] = {
        "config": CONFIG,
        "tokenizer": TOKENIZER,
        "tokenizer_config": {},
        "generation_config": {"eos_token_id": [99, 97, 99], "temperature": 0.6},
    }
    for name, content in (contents | files).items():
        if content is not None:
            text = content if isinstance(content, str) else json.dumps(content)
            (folder / f"{name}.json").write_text(text)
    return folder


@pytest.fixture
def files(tmp_path: Path) -> Path:
    folder = write(tmp_path / "files")
    (folder / "model.safetensors").write_bytes(b"tensors" * 9_000)
    (folder / "pytorch_model.bin").write_bytes(b"pickle")
    (folder / "modeling.py").write_text("raise SystemExit")
    (folder / "original").mkdir()
    (folder / "original" / "config.json").write_text("{}")
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "hub"


@pytest.fixture
def server(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    with HubServer(folder, tokens=frozenset({TOKEN})) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        yield server


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.mark.usefixtures("server")
def test_main_is_pinned_and_the_texts_come_without_weights(
    folder: Path, files: Path, cache: Path
) -> None:
    commit = publish(folder, MODEL, files)
    assert resolve_revision(MODEL, cache_dir=cache) == commit
    assert resolve_revision(MODEL, commit, cache_dir=cache) == commit
    path = download(MODEL, commit, weights=False, cache_dir=cache)
    assert {file.name for file in path.iterdir()} == {
        "config.json",
        "generation_config.json",
        "tokenizer.json",
        "tokenizer_config.json",
    }
    assert read_facts(path, MODEL, REVISION) == FACTS


@pytest.mark.usefixtures("server")
def test_weights_are_safetensors_alone(folder: Path, files: Path, cache: Path) -> None:
    commit = publish(folder, MODEL, files)
    seen: list[tuple[int, int]] = []
    path = download(
        MODEL,
        commit,
        weights=True,
        cache_dir=cache,
        progress=lambda done, total: seen.append((done, total)),
    )
    assert (path / "model.safetensors").read_bytes() == b"tensors" * 9_000
    names = {file.name for file in path.iterdir()}
    assert names.isdisjoint({"pytorch_model.bin", "modeling.py", "original"})
    total = sum((path / name).stat().st_size for name in names)
    assert seen[-1] == (total, total)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert len(seen) > 1


@pytest.mark.usefixtures("server")
def test_the_old_commit_is_served_after_main_moved(folder: Path, files: Path, cache: Path) -> None:
    first = publish(folder, MODEL, files)
    write(files, config={**CONFIG, "vocab_size": 50})
    second = publish(folder, MODEL, files)
    assert resolve_revision(MODEL, cache_dir=cache) == second
    sizes = [
        read_facts(
            download(MODEL, commit, weights=False, cache_dir=cache), MODEL, commit
        ).vocabulary_size
        for commit in (first, second)
    ]
    assert sizes == [100, 50]


@pytest.mark.parametrize("weights", [False, True])
def test_a_complete_commit_needs_no_hub(
    folder: Path, files: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, weights: bool
) -> None:
    commit = publish(folder, MODEL, files)
    with HubServer(folder) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        path = download(MODEL, commit, weights=weights, cache_dir=cache)
    assert resolve_revision(MODEL, commit, cache_dir=cache) == commit
    assert download(MODEL, commit, weights=False, cache_dir=cache) == path
    if weights:
        assert download(MODEL, commit, weights=True, cache_dir=cache) == path
    else:
        with pytest.raises(Unreachable):
            download(MODEL, commit, weights=True, cache_dir=cache)
    with pytest.raises(Unreachable):
        resolve_revision(MODEL, "main", cache_dir=cache)


@pytest.mark.usefixtures("server")
def test_a_file_that_was_lost_is_fetched_again(folder: Path, files: Path, cache: Path) -> None:
    commit = publish(folder, MODEL, files)
    path = download(MODEL, commit, weights=True, cache_dir=cache)
    (path / "model.safetensors").resolve().unlink()
    assert download(MODEL, commit, weights=True, cache_dir=cache) == path
    assert (path / "model.safetensors").read_bytes() == b"tensors" * 9_000


@pytest.mark.usefixtures("server")
def test_refusals_are_told_apart(
    folder: Path, files: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NotFound):
        resolve_revision("reliquary/none", cache_dir=cache)
    commit = publish(folder, MODEL, files)
    with pytest.raises(RevisionNotFound):
        resolve_revision(MODEL, "develop", cache_dir=cache)
    with pytest.raises(RevisionNotFound):
        download(MODEL, "0" * 40, weights=False, cache_dir=cache)
    set_access(folder, MODEL, gated="auto")
    with pytest.raises(Gated):
        resolve_revision(MODEL, cache_dir=cache)
    set_access(folder, MODEL, private=True)
    with pytest.raises(NotFound, match="or it is private"):
        resolve_revision(MODEL, cache_dir=cache)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    with pytest.raises(Private):
        download(MODEL, commit, weights=False, cache_dir=cache)


@pytest.mark.usefixtures("server")
def test_a_repository_without_safetensors_is_unsupported(
    folder: Path, files: Path, cache: Path
) -> None:
    (files / "model.safetensors").unlink()
    commit = publish(folder, MODEL, files)
    with pytest.raises(Unsupported, match="safetensors"):
        download(MODEL, commit, weights=False, cache_dir=cache)


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize("first", ["download", "size"])
def test_the_weights_are_weighed_without_being_fetched(
    first: str, folder: Path, files: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Neither counts: what lies deeper, and the weights in their maker's own layout.
    (files / "original" / "model.safetensors").write_bytes(b"x" * 11)
    (files / "consolidated.00.safetensors").write_bytes(b"x" * 13)
    (files / "model-2.safetensors").write_bytes(b"x" * 17)
    commit = publish(folder, MODEL, files)
    if first == "download":
        download(MODEL, commit, weights=False, cache_dir=cache)
    else:
        assert weight_bytes(MODEL, commit, cache_dir=cache) == 7 * 9_000 + 17
    assert not list(cache.rglob("*.safetensors"))
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    assert weight_bytes(MODEL, commit, cache_dir=cache) == 7 * 9_000 + 17


@pytest.mark.usefixtures("server")
def test_weights_that_are_not_there_have_no_size(folder: Path, files: Path, cache: Path) -> None:
    (files / "model.safetensors").rename(files / "original" / "model.safetensors")
    commit = publish(folder, MODEL, files)
    with pytest.raises(Unsupported, match="safetensors"):
        weight_bytes(MODEL, commit, cache_dir=cache)


@pytest.mark.usefixtures("server")
def test_a_giant_text_file_is_not_fetched(
    folder: Path, files: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "TEXT_FILE_LIMIT", 200)
    (files / "tokenizer.json").write_text(" " * 201)
    commit = publish(folder, MODEL, files)
    with pytest.raises(Unsupported, match=r"tokenizer\.json is larger"):
        download(MODEL, commit, weights=False, cache_dir=cache)
    assert not list(cache.rglob("tokenizer.json"))


def test_a_hub_that_never_answers_is_given_up(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "TIMEOUT_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(Unreachable):
            resolve_revision(MODEL, cache_dir=cache)
        with pytest.raises(Unreachable):
            download(MODEL, REVISION, weights=False, cache_dir=cache)


@pytest.mark.parametrize(
    "model", ["", "name", "/name", "a/b/c", "../secret", "a/..", "a--b/c", "a b/c", "a/" + "b" * 97]
)
@pytest.mark.parametrize("call", ["resolve", "download"])
def test_what_can_be_no_name_is_not_asked_for(model: str, call: str) -> None:
    with pytest.raises(NotFound, match="org/name"):
        if call == "resolve":
            resolve_revision(model)
        else:
            download(model, REVISION, weights=False)


@pytest.mark.parametrize("revision", ["main", "a" * 39, "A" * 40, "../" + "a" * 37])
def test_only_a_commit_is_downloaded(revision: str) -> None:
    with pytest.raises(ValueError, match="commit"):
        download(MODEL, revision, weights=True)


NESTED = {
    "architectures": ["Qwen3ForCausalLM"],
    "text_config": {
        "vocab_size": 64,
        "max_position_embeddings": 4_096,
        "torch_dtype": "float16",
        "eos_token_id": 7,
    },
}


@pytest.mark.parametrize(
    ("files", "change"),
    [
        ({}, {}),
        ({"generation_config": None}, {"end_ids": (5,)}),
        ({"generation_config": {"eos_token_id": None}}, {"end_ids": (5,)}),
        ({"generation_config": {"eos_token_id": 0}}, {"end_ids": (0,)}),
        (
            {"config": NESTED, "generation_config": None},
            {
                "end_ids": (7,),
                "vocabulary_size": 64,
                "context_length": 4_096,
                "dtype": "float16",
            },
        ),
        ({"config": {**CONFIG, "vocab_size": 151_936}}, {}),
        ({"config": {**CONFIG, "vocab_size": 90}}, {"vocabulary_size": 90}),
        (
            {"tokenizer_config": {"added_tokens_decoder": {"110": {"content": "x"}}}},
            {"vocabulary_size": 111},
        ),
        (
            {"tokenizer": {"model": {"type": "Unigram", "vocab": [["a", 0.0]] * 70}}},
            {"vocabulary_size": 70},
        ),
        ({"config": {**CONFIG, "dtype": None}}, {"dtype": "float32"}),
        ({"config": {**CONFIG, "dtype": "torch.float16"}}, {"dtype": "float16"}),
        ({"tokenizer_config": None}, {}),
    ],
)
def test_facts_follow_the_draw(tmp_path: Path, files: dict[str, Any], change: Any) -> None:
    folder = write(tmp_path / "model", **files)
    assert read_facts(folder, MODEL, REVISION) == replace(FACTS, **change)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"config": None}, r"no config\.json"),
        ({"config": "{"}, r"config\.json is no valid JSON"),
        ({"config": "[" * 100_000}, r"config\.json is no valid JSON"),
        ({"config": "[]"}, r"config\.json must hold a JSON object"),
        ({"config": {**CONFIG, "architectures": None}}, "architecture"),
        ({"config": {**CONFIG, "architectures": [1]}}, "architecture"),
        ({"config": {**CONFIG, "text_config": [1]}}, "text_config"),
        ({"config": {**CONFIG, "vocab_size": "128"}}, "vocab_size"),
        ({"config": {**CONFIG, "vocab_size": True}}, "vocab_size"),
        ({"config": {**CONFIG, "max_position_embeddings": 0}}, "max_position_embeddings"),
        ({"config": {**CONFIG, "quantization_config": {"bits": 4}}}, "quantized"),
        ({"config": {**NESTED, "text_config": {"quantization_config": {"a": 1}}}}, "quantized"),
        ({"config": {**CONFIG, "eos_token_id": None}, "generation_config": None}, "end-of-seq"),
        ({"generation_config": {"eos_token_id": ["a"]}}, "eos_token_id"),
        ({"generation_config": {"eos_token_id": -1}}, "eos_token_id"),
        ({"generation_config": {"eos_token_id": 1.0}}, "eos_token_id"),
        ({"tokenizer": None}, r"no tokenizer\.json"),
        ({"tokenizer": {"model": {}}}, "no vocabulary"),
        ({"tokenizer": {"model": {"vocab": {"a": "0"}}}}, "whole number"),
        ({"tokenizer": {**TOKENIZER, "added_tokens": [{"id": None}]}}, "whole number"),
        ({"tokenizer": {**TOKENIZER, "added_tokens": 7}}, "added_tokens"),
        ({"tokenizer_config": {"added_tokens_decoder": {"x": {}}}}, "whole number"),
        ({"tokenizer_config": {"added_tokens_decoder": {"9" * 5_000: {}}}}, "whole number"),
        ({"tokenizer_config": {"added_tokens_decoder": [1]}}, "added_tokens_decoder"),
    ],
)
def test_what_the_draw_cannot_serve_is_unsupported(
    tmp_path: Path, files: dict[str, Any], message: str
) -> None:
    folder = write(tmp_path / "model", **files)
    with pytest.raises(Unsupported, match=message):
        read_facts(folder, MODEL, REVISION)


def test_every_refusal_is_one_kind_of_error() -> None:
    kinds: list[Callable[..., Exception]] = [NotFound, RevisionNotFound, Private, Gated]
    kinds += [Unsupported, Unreachable]
    assert all(isinstance(kind("x"), repository.RepositoryError) for kind in kinds)
