"""Batches through a live gateway, up to where nodes would take over."""

import json
import socket
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx
import httpx2
import openai
import pytest
from ended_batch import check_ended, wait
from live_gateway import LiveGateway, live_gateway
from small_model import MODEL, small_model_hub

CHAT = "/v1/chat/completions"
KEY = "idempotency-key-0001"
BATCH_MEMBERS = {
    "id", "object", "endpoint", "errors", "input_file_id", "completion_window", "status",
    "output_file_id", "error_file_id", "created_at", "in_progress_at", "expires_at",
    "finalizing_at", "completed_at", "failed_at", "expired_at", "cancelling_at", "cancelled_at",
    "request_counts", "metadata",
}  # fmt: skip


def line(custom_id: str, **body: Any) -> dict[str, Any]:
    message = {"role": "user", "content": "hello"}
    body = {"model": MODEL, "messages": [message], "max_tokens": 16, "seed": 7} | body
    return {"custom_id": custom_id, "method": "POST", "url": CHAT, "body": body}


def jsonl(*lines: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in lines)


@pytest.fixture(scope="module")
def commit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with small_model_hub(tmp_path_factory.mktemp("hub")) as published:
        yield published


@pytest.fixture(scope="module")
def gateway(commit: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveGateway]:
    data = tmp_path_factory.mktemp("gateway")
    with live_gateway(data, open_orders=1_000) as running:
        yield running


@pytest.fixture(scope="module")
def file_id(gateway: LiveGateway) -> str:
    content = jsonl(line("q1"), line("q2", stop="x"), line("q3"))
    return gateway.client().files.create(file=("in.jsonl", content), purpose="batch").id


def create_body(file_id: str, **changes: Any) -> dict[str, Any]:
    return {"input_file_id": file_id, "endpoint": CHAT, "completion_window": "24h"} | changes


def post(gateway: LiveGateway, body: dict[str, Any], **headers: str) -> httpx.Response:
    return httpx.post(
        f"{gateway.base_url}/batches", json=body, headers=gateway.auth | headers, timeout=60
    )


def create(client: openai.OpenAI, file_id: str, **options: Any) -> openai.types.Batch:
    return client.batches.create(
        input_file_id=file_id, endpoint=CHAT, completion_window="24h", **options
    )


def test_a_new_batch(gateway: LiveGateway, file_id: str, commit: str) -> None:
    client = gateway.client()
    metadata = {"name": "día 😀", "": "empty key", "max_price_usd": "3", "revision": commit}
    batch = create(client, file_id, metadata=metadata)
    shown = batch.to_dict()
    assert set(shown) == BATCH_MEMBERS | {"reliquary_queue"}
    assert shown["status"] == "validating"
    assert shown["metadata"] == metadata
    assert shown["request_counts"] == {"total": 3, "completed": 0, "failed": 1}
    assert shown["expires_at"] == shown["created_at"] + 24 * 3_600
    assert set(shown["reliquary_queue"]) == {"queue_position", "estimated_start_at", "reason"}
    assert shown["reliquary_queue"]["queue_position"] >= 1
    nulls = {name for name, value in shown.items() if value is None}
    assert nulls == {
        "errors", "output_file_id", "error_file_id", "in_progress_at", "finalizing_at",
        "completed_at", "failed_at", "expired_at", "cancelling_at", "cancelled_at",
    }  # fmt: skip
    assert client.batches.retrieve(batch.id).id == batch.id
    assert client.batches.list(limit=1).data[0].id == batch.id


def test_native_view(gateway: LiveGateway, file_id: str, commit: str) -> None:
    batch = create(gateway.client(), file_id)
    url = f"{gateway.origin}/api/v1/dataset-orders/{batch.id.removeprefix('batch_')}"
    order = httpx.get(url, headers=gateway.auth).json()
    assert (order["batch_id"], order["status"]) == (batch.id, "validating")
    assert (order["model"], order["revision"], order["seed"]) == (MODEL, commit, 7)
    assert order["progress"]["samples_total"] == 2
    assert order["miners"] == []
    assert httpx.get(f"{url}/receipts", headers=gateway.auth).json()["error"]["code"] == "not_found"
    other = {"Authorization": f"Bearer {gateway.new_key('stranger')}"}
    assert httpx.get(url, headers=other).status_code == 404


def test_catalog(gateway: LiveGateway) -> None:
    answer = httpx.get(f"{gateway.origin}/api/v1/generation/catalog").json()
    assert "Qwen3ForCausalLM" in answer["architectures"]


@pytest.mark.parametrize("metadata", [None, {}, {str(i): "x" * 512 for i in range(16)},
                                      {"😀" * 64: "😀" * 512}])  # fmt: skip
def test_metadata_comes_back_exactly(
    gateway: LiveGateway, file_id: str, metadata: dict[str, str] | None
) -> None:
    answer = post(gateway, create_body(file_id, metadata=metadata))
    assert answer.status_code == 200, answer.text
    assert answer.json()["metadata"] == metadata


@pytest.mark.parametrize(
    ("changes", "code", "param"),
    [
        ({"endpoint": "/v1/embeddings"}, "invalid_endpoint", "endpoint"),
        ({"endpoint": None}, "invalid_endpoint", "endpoint"),
        ({"endpoint": ["/v1/completions"]}, "invalid_endpoint", "endpoint"),
        ({"completion_window": "23h"}, "invalid_completion_window", "completion_window"),
        ({"completion_window": "169h"}, "invalid_completion_window", "completion_window"),
        ({"completion_window": "999h"}, "invalid_completion_window", "completion_window"),
        ({"completion_window": "24h\n"}, "invalid_completion_window", "completion_window"),
        ({"completion_window": "٢٤h"}, "invalid_completion_window", "completion_window"),
        ({"completion_window": 24}, "invalid_completion_window", "completion_window"),
        ({"metadata": "x"}, "invalid_metadata", "metadata"),
        ({"metadata": []}, "invalid_metadata", "metadata"),
        ({"metadata": {"a": 1}}, "invalid_metadata", "metadata.a"),
        ({"metadata": {"a": None}}, "invalid_metadata", "metadata.a"),
        ({"metadata": {"a": ["x"]}}, "invalid_metadata", "metadata.a"),
        ({"metadata": {"a": {}}}, "invalid_metadata", "metadata.a"),
        ({"metadata": {"a": "\0"}}, "invalid_metadata", "metadata"),
        ({"metadata": {"a" * 65: ""}}, "invalid_metadata", "metadata"),
        ({"metadata": {"a": "x" * 513}}, "invalid_metadata", "metadata.a"),
        ({"metadata": {str(i): "" for i in range(17)}}, "invalid_metadata", "metadata"),
        ({"metadata": {"max_price_usd": "cheap"}}, "invalid_metadata", "metadata.max_price_usd"),
        ({"metadata": {"reliquary_grader": "x"}}, "grader_unknown", "metadata.reliquary_grader"),
        ({"input_file_id": None}, "invalid_request", "input_file_id"),
        ({"input_file_id": 5}, "invalid_request", "input_file_id"),
        ({"metadata": {"revision": "main"}}, "invalid_revision", "metadata.revision"),
        ({"metadata": {"revision": "A" * 40}}, "invalid_revision", "metadata.revision"),
        ({"metadata": {"model": "qwen"}}, "invalid_model", "metadata.model"),
        ({"metadata": {"model": "a/b/c"}}, "invalid_model", "metadata.model"),
        ({"endpoint": "/v1/completions"}, "endpoint_mismatch", "endpoint"),
    ],
)
def test_fields_out_of_range(
    gateway: LiveGateway, file_id: str, changes: dict[str, Any], code: str, param: str
) -> None:
    answer = post(gateway, create_body(file_id, **changes))
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    assert (error["code"], error["param"]) == (code, param)
    assert error["type"] == "invalid_request_error"


def test_unknown_members_are_ignored(gateway: LiveGateway, file_id: str) -> None:
    body = create_body(file_id, output_expires_after={"seconds": 3600}, model=["x"])
    assert post(gateway, body).status_code == 200


def test_files_that_cannot_be_read(gateway: LiveGateway, file_id: str) -> None:
    stranger = gateway.client(gateway.new_key("stranger"))
    foreign = stranger.files.create(file=jsonl(line("q1")), purpose="batch").id
    unknown = "file-00000000-0000-7000-8000-000000000000"
    answers = {
        post(gateway, create_body(wanted)).text
        for wanted in (foreign, unknown, "nonsense", unknown.replace("file-", "file-out-"))
    }
    assert len(answers) == 1
    error = json.loads(answers.pop())["error"]
    assert (error["code"], error["param"]) == ("file_not_found", "input_file_id")


def test_unusable_files(gateway: LiveGateway) -> None:
    client = gateway.client()
    for content, status, code in [
        (b"\n\n", 400, "invalid_model"),
        (jsonl(line("q1", stop="x")), 422, "invalid_batch_file"),
        (jsonl(line("q1"), line("q2", temperature=0.5)), 422, "mixed_sampling"),
        (jsonl(line("q1", model="reliquary/nowhere")), 422, "model_not_found"),
    ]:
        bad = client.files.create(file=content, purpose="batch")
        with pytest.raises(openai.APIStatusError) as refused:
            create(client, bad.id)
        assert (refused.value.status_code, refused.value.code) == (status, code)
    assert list(gateway.state.settings.incoming.iterdir()) == []


def test_idempotency(gateway: LiveGateway, file_id: str) -> None:
    tries: list[str] = []

    def count(request: httpx2.Request) -> None:
        tries.append(request.method)

    transport = httpx2.Client(event_hooks={"request": [count]})
    client = gateway.client(max_retries=3, http_client=transport)
    headers = {"Idempotency-Key": KEY}
    first = create(client, file_id, metadata={"a": "1"}, extra_headers=headers)
    again = create(client, file_id, metadata={"a": "1"}, extra_headers=headers)
    assert again.id == first.id
    tries.clear()
    with pytest.raises(openai.ConflictError) as conflict:
        create(client, file_id, metadata={"a": "2"}, extra_headers=headers)
    assert conflict.value.code == "idempotency_conflict"
    assert conflict.value.response.headers["x-should-retry"] == "false"
    assert len(tries) == 1
    stranger = gateway.client(gateway.new_key("stranger"))
    theirs = stranger.files.create(file=jsonl(line("q1")), purpose="batch").id
    assert create(stranger, theirs, extra_headers=headers).id != first.id


@pytest.mark.parametrize("key", ["short", "x" * 81, "sixteen letters!", ""])
def test_idempotency_keys_that_are_none(gateway: LiveGateway, file_id: str, key: str) -> None:
    answer = post(gateway, create_body(file_id), **{"Idempotency-Key": key})
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "invalid_idempotency_key"


def test_a_failed_create_leaves_the_key_free(gateway: LiveGateway, file_id: str) -> None:
    headers = {"Idempotency-Key": "idempotency-key-0002"}
    unknown = create_body("file-00000000-0000-7000-8000-000000000000")
    assert post(gateway, unknown, **headers).status_code == 404
    assert post(gateway, create_body(file_id), **headers).status_code == 200


def test_twins_get_one_batch(gateway: LiveGateway, file_id: str) -> None:
    ids: list[str] = []

    def send() -> None:
        headers = {"Idempotency-Key": "idempotency-key-0003"}
        ids.append(post(gateway, create_body(file_id), **headers).json()["id"])

    threads = [threading.Thread(target=send) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ids) == 4
    assert len(set(ids)) == 1


def test_paging(gateway: LiveGateway) -> None:
    client = gateway.client(gateway.new_key("pages"))
    file_id = client.files.create(file=jsonl(line("q1")), purpose="batch").id
    ids = [create(client, file_id).id for _ in range(6)][::-1]
    assert [batch.id for batch in client.batches.list(limit=3)] == ids
    assert [batch.id for batch in client.batches.list(limit=4)] == ids
    first = client.batches.list(limit=3)
    shown = first.to_dict()
    assert (shown["first_id"], shown["last_id"], shown["has_more"]) == (ids[0], ids[2], True)
    last = client.batches.list(limit=3, after=ids[2]).to_dict()
    assert (last["first_id"], last["last_id"], last["has_more"]) == (ids[3], ids[5], False)
    beyond = client.batches.list(after=ids[5]).to_dict()
    assert (beyond["data"], beyond["first_id"], beyond["has_more"]) == ([], None, False)
    # A batch that comes while pages are read shifts nothing.
    seen = []
    for batch in client.batches.list(limit=2):
        if not seen:
            create(client, file_id)
        seen.append(batch.id)
    assert seen == ids
    with pytest.raises(openai.BadRequestError) as refused:
        gateway.client().batches.list(after=ids[0])
    assert refused.value.param == "after"


def test_cancel_before_the_start(gateway: LiveGateway, file_id: str) -> None:
    tries: list[str] = []
    transport = httpx2.Client(event_hooks={"request": [lambda request: tries.append("x")]})
    client = gateway.client(max_retries=3, http_client=transport)
    batch = client.batches.cancel(create(client, file_id).id)
    assert batch.status in ("cancelling", "cancelled")
    batch = wait(client, batch.id)
    assert batch.status == "cancelled"
    _, errors = check_ended(client, batch)
    assert len(errors) == 3
    assert batch.to_dict().get("reliquary_queue") is None
    assert batch.request_counts is not None
    assert batch.request_counts.to_dict() == {"total": 3, "completed": 0, "failed": 3}
    tries.clear()
    with pytest.raises(openai.ConflictError) as refused:
        client.batches.cancel(batch.id)
    assert refused.value.code == "batch_not_cancellable"
    assert len(tries) == 1


def test_cancel_never_reads_its_body(gateway: LiveGateway, file_id: str) -> None:
    batch = create(gateway.client(), file_id)
    head = (
        f"POST /api/openai/v1/batches/{batch.id}/cancel HTTP/1.1\r\nHost: x\r\n"
        f"Authorization: {gateway.auth['Authorization']}\r\nConnection: close\r\n"
        "Content-Type: application/json\r\nContent-Length: 1000000\r\n\r\n{nonsense"
    )
    place = urlsplit(gateway.origin)
    with socket.create_connection((place.hostname, place.port), timeout=20) as connection:
        connection.sendall(head.encode())
        answer = connection.recv(65_536)
    assert answer.startswith(b"HTTP/1.1 200 ")


def test_batches_of_others_are_unknown(gateway: LiveGateway, file_id: str) -> None:
    mine = create(gateway.client(), file_id).id
    other = {"Authorization": f"Bearer {gateway.new_key('stranger')}"}
    unknown = "batch_00000000-0000-7000-8000-000000000000"
    answers = set()
    for batch_id in (mine, unknown):
        url = f"{gateway.base_url}/batches/{batch_id}"
        for response in (
            httpx.get(url, headers=other),
            httpx.post(f"{url}/cancel", headers=other),
        ):
            assert response.status_code == 404
            answers.add(response.text)
    assert len(answers) == 1
    assert gateway.client().batches.retrieve(mine).status == "validating"


def test_open_orders_are_limited(commit: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    with live_gateway(tmp_path_factory.mktemp("limited"), open_orders=1) as limited:
        client = limited.client(max_retries=3)
        file_id = client.files.create(file=jsonl(line("q1")), purpose="batch").id
        first = create(client, file_id)
        with pytest.raises(openai.RateLimitError) as refused:
            create(client, file_id)
        assert refused.value.code == "order_limit"
        assert refused.value.response.headers["x-should-retry"] == "false"
        client.batches.cancel(first.id)
        assert create(client, file_id).status == "validating"
