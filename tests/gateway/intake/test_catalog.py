"""Models looked up on a real hub: what can be ordered, and the code of each refusal."""

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.catalog.lookup import Catalog
from gateway.catalog.names import check_commit, check_model_name
from gateway.errors import GatewayError
from protocol.architectures import SUPPORTED_ARCHITECTURES
from scripts.hub import set_access

MODEL = "reliquary/tiny"
UNKNOWN = "0" * 40


async def refusal(catalog: Catalog, name: str, commit: str | None = None) -> GatewayError:
    with pytest.raises(GatewayError) as error:
        await catalog.model(name, commit or await catalog.pin(name), SUPPORTED_ARCHITECTURES)
    return error.value


async def test_a_model_is_pinned_and_described(put: Callable[..., str], catalog: Catalog) -> None:
    commit = put()
    assert await catalog.pin(MODEL) == commit
    model = await catalog.model(MODEL, commit, SUPPORTED_ARCHITECTURES)
    assert (model.facts.model, model.facts.revision) == (MODEL, commit)
    assert model.facts.end_ids == (2,)
    assert model.facts.context_length == 32_768
    assert (model.folder / "tokenizer.json").is_file()
    assert not (model.folder / "model.safetensors").exists()


async def test_main_moves_and_a_commit_stays(put: Callable[..., str], catalog: Catalog) -> None:
    first = put()
    second = put(config={"max_position_embeddings": 1_024})
    assert first != second
    assert await catalog.pin(MODEL) == second
    models = [await catalog.model(MODEL, each, SUPPORTED_ARCHITECTURES) for each in (first, second)]
    assert [model.facts.context_length for model in models] == [32_768, 1_024]


@pytest.mark.parametrize(
    ("config", "without", "code"),
    [
        ({"architectures": ["LlamaForCausalLM"]}, "", "architecture_unsupported"),
        ({"architectures": []}, "", "model_unsupported"),
        ({"architectures": ["LlamaForCausalLM"]}, "tokenizer.json", "architecture_unsupported"),
        ({"quantization_config": {"bits": 4}}, "", "model_unsupported"),
        ({"text_config": {"quantization_config": {"bits": 4}}}, "", "model_unsupported"),
        ({"dtype": "float8_e4m3fn"}, "", "model_unsupported"),
        ({"eos_token_id": None}, "", "model_unsupported"),
        ({"eos_token_id": "<|im_end|>"}, "", "model_unsupported"),
        ({"num_hidden_layers": None}, "", "model_unsupported"),
        ({"layer_types": ["full_attention"]}, "", "model_unsupported"),
        ({"max_position_embeddings": None}, "", "model_unsupported"),
        ({}, "model.safetensors", "model_unsupported"),
        ({}, "config.json", "model_unsupported"),
        ({}, "tokenizer.json", "model_unsupported"),
    ],
)
async def test_a_model_that_cannot_be_served(
    config: dict[str, object],
    without: str,
    code: str,
    put: Callable[..., str],
    catalog: Catalog,
) -> None:
    put(config=config, without=without)
    error = await refusal(catalog, MODEL)
    assert (error.status, error.code) == (422, code)
    if code == "architecture_unsupported":
        assert "Qwen3ForCausalLM, Qwen3_5ForCausalLM" in error.message


async def test_another_list_of_architectures(put: Callable[..., str], catalog: Catalog) -> None:
    commit = put()
    await catalog.model(MODEL, commit, ["Qwen3ForCausalLM"])
    with pytest.raises(GatewayError) as error:
        await catalog.model(MODEL, commit, ["OneForCausalLM", "OtherForCausalLM"])
    assert error.value.code == "architecture_unsupported"
    assert "OneForCausalLM, OtherForCausalLM" in error.value.message


async def test_unknown_private_and_gated(
    put: Callable[..., str], hub: Path, catalog: Catalog
) -> None:
    commit = put()
    put("reliquary/gated")
    put("reliquary/private")
    set_access(hub, "reliquary/gated", gated="manual")
    set_access(hub, "reliquary/private", private=True)
    # To a stranger the hub does not tell a private repository from none.
    error = await refusal(catalog, "reliquary/private")
    assert (error.status, error.code) == (422, "model_not_found")
    assert "or it is private" in error.message
    error = await refusal(catalog, "reliquary/nothing")
    assert (error.status, error.code) == (422, "model_not_found")
    error = await refusal(catalog, "reliquary/nothing", commit)
    assert (error.status, error.code) == (422, "model_not_found")
    error = await refusal(catalog, "reliquary/gated")
    assert (error.status, error.code) == (422, "model_private")
    error = await refusal(catalog, MODEL, UNKNOWN)
    assert (error.status, error.code, error.param) == (400, "invalid_revision", "metadata.revision")


async def test_a_hub_that_is_away(
    put: Callable[..., str], catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = put()
    await catalog.model(MODEL, commit, SUPPORTED_ARCHITECTURES)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(GatewayError) as error:
            await catalog.pin(MODEL)
    assert (error.value.status, error.value.code) == (503, "model_lookup_unavailable")
    assert error.value.retry_after is not None
    assert error.value.retry_after <= 60
    # A gateway that starts anew has what it knew of a commit on disk.
    for known in (catalog, Catalog(tmp_path / "cache")):
        model = await known.model(MODEL, commit, SUPPORTED_ARCHITECTURES)
        assert model.facts.revision == commit
        assert model.size.weight_bytes == len(b"weights are never read here")


async def test_a_hub_that_never_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = Catalog(tmp_path / "cache", lookup_seconds=0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        errors = await asyncio.gather(
            *(catalog.pin(MODEL) for _ in range(10)), return_exceptions=True
        )
    catalog.close()
    assert {getattr(error, "code", error) for error in errors} == {"model_lookup_unavailable"}


@pytest.mark.parametrize(
    "name",
    [
        None,
        "",
        "tiny",
        "a/b/c",
        "/b",
        "a/",
        "a/b ",
        " a/b",
        "a b/c",
        "../x",
        "é/x",
        "a/" + "b" * 97,
    ],
)
def test_names_that_are_none(name: str | None) -> None:
    with pytest.raises(GatewayError) as error:
        check_model_name(name, param="metadata.model")
    assert (error.value.status, error.value.code) == (400, "invalid_model")
    assert error.value.param == "metadata.model"


@pytest.mark.parametrize("revision", ["", "main", "0" * 39, "0" * 41, "A" * 40, "0" * 40 + "\n"])
def test_revisions_that_are_none(revision: str) -> None:
    with pytest.raises(GatewayError) as error:
        check_commit(revision, param="metadata.revision")
    assert (error.value.status, error.value.code) == (400, "invalid_revision")
