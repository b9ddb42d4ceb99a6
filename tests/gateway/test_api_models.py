"""Every check of a model, provoked through a live gateway that asks a real hub."""

import json
import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from live_gateway import LiveGateway, live_gateway
from small_model import MODEL, small_model_hub

from protocol.architectures import SUPPORTED_ARCHITECTURES
from scripts.hub import HubServer, publish, set_access

CHAT = "/v1/chat/completions"
Publish = Callable[..., str]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hub")


@pytest.fixture(scope="module")
def commit(folder: Path) -> Iterator[str]:
    with small_model_hub(folder) as published:
        yield published


@pytest.fixture(scope="module")
def gateway(commit: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveGateway]:
    with live_gateway(tmp_path_factory.mktemp("gateway"), open_orders=1_000) as running:
        yield running


@pytest.fixture
def put(folder: Path, commit: str, tmp_path: Path) -> Publish:
    """Publish a changed copy of the small model; return its commit."""

    def call(name: str, without: str = "", nested: str = "", **config: Any) -> str:
        files = tmp_path / "files"
        shutil.copytree(folder / "files", files)
        text = json.loads((files / "config.json").read_text())
        (files / "config.json").write_text(json.dumps(text | config))
        if without:
            (files / without).unlink()
        if nested:
            (files / "below").mkdir()
            (files / nested).rename(files / "below" / nested)
        return publish(folder / "hub", name, files)

    return call


def order(
    gateway: LiveGateway, model: str, metadata: dict[str, str] | None = None, **body: Any
) -> httpx.Response:
    fields = {"model": model, "max_tokens": 16, "seed": 7} | body
    lines = fields.pop("lines", 1)
    messages = [{"role": "user", "content": "hello"}]
    content = "".join(
        json.dumps(
            {
                "custom_id": f"q{number}",
                "method": "POST",
                "url": CHAT,
                "body": {"messages": messages, **fields},
            }
        )
        + "\n"
        for number in range(lines)
    ).encode()
    file = gateway.client().files.create(file=("in.jsonl", content), purpose="batch")
    wanted = {"input_file_id": file.id, "endpoint": CHAT, "completion_window": "24h"}
    answer = httpx.post(
        f"{gateway.base_url}/batches",
        json={**wanted, "metadata": metadata},
        headers=gateway.auth,
        timeout=60,
    )
    assert answer.headers["content-type"].startswith("application/json")
    return answer


def refusal(answer: httpx.Response) -> tuple[int, str]:
    assert set(answer.json()["error"]) == {"message", "type", "param", "code"}
    return answer.status_code, answer.json()["error"]["code"]


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"architectures": ["LlamaForCausalLM"]}, "architecture_unsupported"),
        ({"architectures": None}, "model_unsupported"),
        ({"without": "model.safetensors"}, "model_unsupported"),
        ({"nested": "model.safetensors"}, "model_unsupported"),
        ({"without": "tokenizer.json"}, "model_unsupported"),
        ({"quantization_config": {"quant_method": "fp8"}}, "model_unsupported"),
        ({"without": "generation_config.json"}, "model_unsupported"),
        ({"max_position_embeddings": 8_192}, "context_too_long"),
        ({"max_position_embeddings": 8_207}, "context_too_long"),
        ({"num_hidden_layers": 1_000_000}, "model_too_large"),
        ({"num_key_value_heads": 10_000_000}, "model_too_large"),
    ],
)
def test_a_model_that_cannot_serve_the_file(
    changes: dict[str, Any], code: str, put: Publish, gateway: LiveGateway
) -> None:
    put("reliquary/changed", **changes)
    answer = order(gateway, "reliquary/changed")
    assert refusal(answer) == (422, code)
    if code == "architecture_unsupported":
        assert all(name in answer.json()["error"]["message"] for name in SUPPORTED_ARCHITECTURES)


def test_the_shortest_context_that_is_enough(put: Publish, gateway: LiveGateway) -> None:
    put("reliquary/changed", max_position_embeddings=8_208)
    assert order(gateway, "reliquary/changed").status_code == 200


@pytest.mark.parametrize(("interval", "status"), [(1, 422), (4, 200)])
def test_layers_of_linear_attention_keep_a_constant_state(
    interval: int, status: int, put: Publish, gateway: LiveGateway
) -> None:
    linear = {f"linear_{name}_head_dim": 16 for name in ("key", "value")}
    heads = {f"linear_num_{name}_heads": 2 for name in ("key", "value")}
    put(
        "reliquary/hybrid",
        architectures=["Qwen3_5ForCausalLM"],
        num_hidden_layers=100_000,
        full_attention_interval=interval,
        linear_conv_kernel_dim=4,
        **linear,
        **heads,
    )
    answer = order(gateway, "reliquary/hybrid")
    assert answer.status_code == status
    if status == 422:
        assert refusal(answer) == (422, "model_too_large")


def test_what_a_stranger_may_not_read(put: Publish, folder: Path, gateway: LiveGateway) -> None:
    put("reliquary/gated")
    set_access(folder / "hub", "reliquary/gated", gated="auto")
    assert refusal(order(gateway, "reliquary/gated")) == (422, "model_private")
    set_access(folder / "hub", "reliquary/gated", private=True)
    assert refusal(order(gateway, "reliquary/gated")) == (422, "model_not_found")
    assert refusal(order(gateway, "reliquary/none")) == (422, "model_not_found")


def test_a_private_model_is_named_where_the_gateway_may_see_it(
    put: Publish, folder: Path, gateway: LiveGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    put("reliquary/secret")
    set_access(folder / "hub", "reliquary/secret", private=True)
    monkeypatch.setenv("HF_TOKEN", "hf_sampletoken")
    with HubServer(folder / "hub", tokens=frozenset({"hf_sampletoken"})) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        assert refusal(order(gateway, "reliquary/secret")) == (422, "model_private")


@pytest.mark.parametrize("revision", ["main", "0" * 39, "A" * 40, "0" * 40])
def test_a_revision_that_is_no_commit_of_the_model(revision: str, gateway: LiveGateway) -> None:
    answer = order(gateway, MODEL, {"revision": revision})
    assert refusal(answer) == (400, "invalid_revision")
    assert answer.json()["error"]["param"] == "metadata.revision"


def test_an_order_that_takes_longer_than_its_window(gateway: LiveGateway) -> None:
    answer = order(gateway, MODEL, lines=3_400, max_tokens=24_000, n=64)
    assert refusal(answer) == (422, "exceeds_generation_deadline")


def test_a_hub_that_is_away(
    commit: str, gateway: LiveGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert order(gateway, MODEL, {"revision": commit}).status_code == 200
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{closed.getsockname()[1]}")
        # What is pinned and known needs no hub.
        assert order(gateway, MODEL, {"revision": commit}).status_code == 200
        for metadata in ({}, {"revision": "1" * 40}):
            answer = order(gateway, MODEL, metadata)
            assert refusal(answer) == (503, "model_lookup_unavailable")
            assert 0 < int(answer.headers["retry-after"]) <= 60


def test_the_list_of_architectures_is_what_nodes_announced(commit: str, tmp_path: Path) -> None:
    with live_gateway(tmp_path / "gateway", architectures=()) as gateway:
        catalog = f"{gateway.origin}/api/v1/generation/catalog"
        for answer in (order(gateway, MODEL, {"revision": commit}), httpx.get(catalog)):
            assert refusal(answer) == (503, "architecture_list_unavailable")
            assert 0 < int(answer.headers["retry-after"]) <= 60
        # A body that is wrong in itself is told so all the same.
        assert refusal(order(gateway, MODEL, {"revision": "main"})) == (400, "invalid_revision")
