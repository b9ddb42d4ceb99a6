"""The whole journey of a batch through the official client, with nodes that fake the model."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from both_dialects import check_ended_in_both
from ended_batch import wait
from fake_nodes import all_verified, fake_nodes, voided
from live_gateway import LiveGateway, live_gateway
from small_model import MODEL, small_model_hub
from tokenizers import Tokenizer

from protocol.keys import load_or_create_hotkey
from protocol.messages import AuditLease, LoadedModel, SampleVerdict

CHAT = "/v1/chat/completions"


def line(custom_id: str, **body: Any) -> dict[str, Any]:
    message = {"role": "user", "content": "hello " + custom_id}
    body = {"model": MODEL, "messages": [message], "max_tokens": 16, "seed": 7, "n": 2} | body
    return {"custom_id": custom_id, "method": "POST", "url": CHAT, "body": body}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    folder = tmp_path_factory.mktemp("hub")
    with small_model_hub(folder) as commit:
        yield commit, folder / "files"


@pytest.fixture(scope="module")
def answer(hub: tuple[str, Path]) -> list[int]:
    """The ids of "hello world" and an end id."""
    tokenizer = Tokenizer.from_file(str(hub[1] / "tokenizer.json"))
    return [*tokenizer.encode("hello world").ids, tokenizer.token_to_id("<|im_end|>")]


@pytest.fixture
def gateway(hub: tuple[str, Path], tmp_path: Path) -> Iterator[LiveGateway]:
    # One for each test: a miner that is gone counts as live for two minutes.
    with live_gateway(tmp_path / "gateway", unit_samples=4) as running:
        yield running


def upload(client: openai.OpenAI, *lines: dict[str, Any] | bytes) -> str:
    rows = [row if isinstance(row, bytes) else json.dumps(row).encode() for row in lines]
    return client.files.create(file=("in.jsonl", b"\n".join(rows)), purpose="batch").id


def test_a_batch_is_delivered(
    gateway: LiveGateway, hub: tuple[str, Path], answer: list[int], tmp_path: Path
) -> None:
    client = gateway.client()
    file_id = upload(client, *(line(f"q{i}") for i in range(7)), b"not json", line("q9", stop="x"))
    batch = client.batches.create(input_file_id=file_id, endpoint=CHAT, completion_window="24h")
    with fake_nodes(gateway, tmp_path, LoadedModel(model=MODEL, revision=hub[0]), answer) as nodes:
        ended = wait(client, batch.id)
    assert ended.status == "completed"
    _, output, errors = check_ended_in_both(
        gateway, ended.id, [*(f"q{i}" for i in range(7)), "", "q9"]
    )
    assert len(output) == 7
    assert [row["error"]["code"] for row in errors] == ["invalid_json", "stop_unavailable"]
    body = output[0]["response"]["body"]
    assert [choice["message"]["content"] for choice in body["choices"]] == ["hello world"] * 2
    assert body["usage"]["completion_tokens"] == 2 * len(answer)
    assert len(nodes.works) == 4
    _check_files(gateway, client, ended)
    _check_native(gateway, ended, nodes.miner.ss58_address)


def _check_files(gateway: LiveGateway, client: openai.OpenAI, batch: openai.types.Batch) -> None:
    assert batch.output_file_id is not None
    file = client.files.retrieve(batch.output_file_id)
    content = client.files.content(file.id).content
    assert file.bytes == len(content)
    assert file.purpose == "batch_output"
    assert "sha256" not in file.to_dict()
    assert file.id not in [row.id for row in client.files.list()]
    url = f"{gateway.base_url}/files/{file.id}/content"
    response = httpx.get(url, headers=gateway.auth)
    assert response.headers["content-type"] == "application/jsonl"
    part = httpx.get(url, headers=gateway.auth | {"Range": "bytes=10-19"})
    assert (part.status_code, part.content) == (206, content[10:20])
    stranger = {"Authorization": f"Bearer {gateway.new_key('stranger')}"}
    assert httpx.get(url, headers=stranger).status_code == 404


def _check_native(gateway: LiveGateway, batch: openai.types.Batch, miner: str) -> None:
    url = f"{gateway.origin}/api/v1/dataset-orders/{batch.id.removeprefix('batch_')}"
    order = httpx.get(url, headers=gateway.auth).json()
    assert order["progress"]["samples_verified"] == order["progress"]["samples_total"] == 14
    (figures,) = order["miners"]
    assert (figures["hotkey"], figures["verified"], figures["void"]) == (miner, 14, 0)
    assert figures["tokens"] == order["progress"]["tokens_verified"] > 0
    receipts = httpx.get(f"{url}/receipts", headers=gateway.auth)
    assert receipts.headers["content-length"] == str(len(receipts.content))
    rows = [json.loads(row) for row in receipts.text.splitlines()]
    assert len(rows) >= 14


def test_a_void_sample_is_generated_again(
    gateway: LiveGateway, hub: tuple[str, Path], answer: list[int], tmp_path: Path
) -> None:
    client = gateway.client()
    file_id = upload(client, *(line(f"q{i}", n=1) for i in range(5)))
    batch = client.batches.create(input_file_id=file_id, endpoint=CHAT, completion_window="24h")
    first: list[str] = []

    def judge(lease: AuditLease) -> list[SampleVerdict]:
        """Void the first sample that is ever judged."""
        verdicts = all_verified(lease)
        if not first:
            first.append(lease.work.unit_id)
            verdicts[0] = voided(verdicts[0])
        return verdicts

    loaded = LoadedModel(model=MODEL, revision=hub[0])
    with fake_nodes(gateway, tmp_path, loaded, answer, judge) as nodes:
        ended = wait(client, batch.id)
    assert ended.status == "completed"
    _, output, errors = check_ended_in_both(gateway, ended.id, [f"q{i}" for i in range(5)])
    assert (len(output), errors) == (5, [])
    assert sum(len(work.samples) for work in nodes.works) == 6
    url = f"{gateway.origin}/api/v1/dataset-orders/{batch.id.removeprefix('batch_')}"
    order = httpx.get(url, headers=gateway.auth).json()
    assert (order["progress"]["samples_verified"], order["progress"]["samples_void"]) == (5, 1)
    assert [(row["verified"], row["void"]) for row in order["miners"]] == [(5, 1)]


def test_identity_stays_over_a_restart(tmp_path: Path) -> None:
    with live_gateway(tmp_path / "data") as first:
        hotkey, key = first.state.keypair.ss58_address, first.key
        file_id = first.client().files.create(file=b"x\n", purpose="batch").id
    assert load_or_create_hotkey(tmp_path / "data" / "hotkey.json").ss58_address == hotkey
    with live_gateway(tmp_path / "data") as second:
        assert second.state.keypair.ss58_address == hotkey
        assert second.client(key).files.content(file_id).content == b"x\n"
