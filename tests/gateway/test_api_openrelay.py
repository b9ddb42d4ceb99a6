"""The OpenRelay dialect on ``/v1``, up to where nodes would take over."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import httpx2
import openai
import pytest
from both_dialects import batch_in, check_ended_in_both, without_nulls
from ended_batch import wait
from live_gateway import LiveGateway, live_gateway
from small_model import MODEL, small_model_hub

from gateway.accounts import set_account_state
from gateway.api_keys import revoke_key
from gateway.store.tables import AccountState

CHAT = "/v1/chat/completions"
# What an order shows before it starts, beside what is left out while it is unset.
NEW_MEMBERS = {
    "id", "object", "endpoint", "model", "input_file_id", "completion_window", "status",
    "created_at", "expires_at", "request_counts", "reliquary_queue",
}  # fmt: skip


def item(custom_id: str, **body: Any) -> dict[str, Any]:
    """An inline request, without method and url."""
    message = {"role": "user", "content": "hello"}
    body = {"model": MODEL, "messages": [message], "max_tokens": 16, "seed": 7} | body
    return {"custom_id": custom_id, "body": body}


def line(custom_id: str, **body: Any) -> dict[str, Any]:
    return {"method": "POST", "url": CHAT} | item(custom_id, **body)


def jsonl(*lines: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in lines)


@pytest.fixture(scope="module")
def commit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with small_model_hub(tmp_path_factory.mktemp("hub")) as published:
        yield published


@pytest.fixture(scope="module")
def gateway(commit: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveGateway]:
    data = tmp_path_factory.mktemp("gateway")
    with live_gateway(data, open_orders=1_000, quotes_per_day=10_000) as running:
        yield running


@pytest.fixture(scope="module")
def file_id(gateway: LiveGateway) -> str:
    return gateway.openrelay().files.create(file=jsonl(line("q1")), purpose="batch").id


def create_body(**changes: Any) -> dict[str, Any]:
    return {"endpoint": CHAT, "completion_window": "24h"} | changes


def post(
    gateway: LiveGateway, body: dict[str, Any], key: str | None = None, **headers: str
) -> httpx.Response:
    auth = {"Authorization": f"Bearer {key or gateway.key}"}
    return httpx.post(
        f"{gateway.openrelay_url}/batches", json=body, headers=auth | headers, timeout=60
    )


def assert_refused(answer: httpx.Response, status: int, code: str, param: str | None) -> None:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert (error["code"], error["param"]) == (code, param)


def files_of(gateway: LiveGateway, key: str) -> list[str]:
    return [row.id for row in gateway.openrelay(key).files.list()]


def create_inline(
    client: openai.OpenAI, *items: dict[str, Any], **options: Any
) -> openai.types.Batch:
    return client.batches.create(
        input_file_id=openai.omit,  # pyright: ignore[reportArgumentType]
        endpoint=CHAT,
        completion_window="24h",
        extra_body={"requests": list(items)},
        **options,
    )


def test_a_new_batch_leaves_out_what_is_unset(gateway: LiveGateway, file_id: str) -> None:
    answer = post(gateway, create_body(input_file_id=file_id, completion_window="168h"))
    assert answer.status_code == 200, answer.text
    batch = answer.json()
    assert set(batch) == NEW_MEMBERS
    assert (batch["model"], batch["status"]) == (MODEL, "validating")
    assert batch["expires_at"] == batch["created_at"] + 168 * 3_600
    assert set(batch["reliquary_queue"]) == {"queue_position", "reason"}
    strict = batch_in(gateway, gateway.base_url, batch["id"])
    assert without_nulls(strict) | {"model": MODEL} == batch


@pytest.mark.parametrize("metadata", [None, {}, {"a": ""}])
def test_metadata(gateway: LiveGateway, file_id: str, metadata: dict[str, str] | None) -> None:
    batch = post(gateway, create_body(input_file_id=file_id, metadata=metadata)).json()
    assert ("metadata" in batch) == (metadata is not None)
    assert batch.get("metadata") == metadata


def test_inline_requests_become_a_file(gateway: LiveGateway) -> None:
    client = gateway.openrelay()
    rows = [item("q1"), line("q2"), {"url": CHAT} | item("q3", stop="x"), {"custom_id": "q4"}]
    batch = create_inline(client, *rows)
    assert batch.request_counts is not None
    assert batch.request_counts.to_dict() == {"total": 4, "completed": 0, "failed": 2}
    file = client.files.retrieve(batch.input_file_id)
    assert (file.filename, file.purpose) == ("requests.jsonl", "batch")
    content = client.files.content(file.id).content
    assert file.bytes == len(content)
    written = [json.loads(row) for row in content.splitlines()]
    assert written == [{"method": "POST", "url": CHAT} | row for row in rows]
    # The same file can be ordered again, in either dialect.
    again = gateway.client().batches.create(
        input_file_id=file.id, endpoint=CHAT, completion_window="24h"
    )
    assert again.request_counts == batch.request_counts


def test_many_inline_requests(gateway: LiveGateway) -> None:
    # Past the size at which the body is taken apart by an intake process.
    count = 2_000
    batch = create_inline(gateway.openrelay(), *(item(f"q{at}") for at in range(count)))
    assert batch.request_counts is not None
    assert batch.request_counts.total == count


def test_a_failed_create_keeps_no_file(gateway: LiveGateway) -> None:
    key = gateway.new_key("leaves-nothing")
    body = {"model": MODEL, "prompt": "hello", "max_tokens": 16}
    completion = {"custom_id": "q1", "url": "/v1/completions", "body": body}
    for rows, status, code in (
        ([item("q1", stop="x")], 422, "invalid_batch_file"),
        ([item("q1"), item("q2", temperature=0.5)], 422, "mixed_sampling"),
        ([item("q1", model="reliquary/nowhere")], 422, "model_not_found"),
        ([{"custom_id": "q1"}], 400, "invalid_model"),
        ([5, "x", None], 400, "invalid_model"),
        ([completion], 400, "endpoint_mismatch"),
    ):  # fmt: skip
        answer = post(gateway, create_body(requests=rows), key)
        assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert files_of(gateway, key) == []
    assert list(gateway.state.settings.incoming.iterdir()) == []


@pytest.mark.parametrize(
    ("changes", "code", "param"),
    [
        ({}, "invalid_request", "input_file_id"),
        ({"requests": None}, "invalid_request", "input_file_id"),
        ({"input_file_id": 5}, "invalid_request", "input_file_id"),
        ({"requests": [item("q1")], "input_file_id": "file-x"}, "invalid_request", "requests"),
        ({"requests": []}, "invalid_request", "requests"),
        ({"requests": {}}, "invalid_request", "requests"),
        ({"requests": "x"}, "invalid_request", "requests"),
        ({"requests": [item("q1")], "model": 5}, "invalid_model", "model"),
        ({"requests": [item("q1")], "endpoint": "/v1/x"}, "invalid_endpoint", "endpoint"),
        ({"requests": [item("q1")], "completion_window": "23h"}, "invalid_completion_window",
         "completion_window"),
        ({"requests": [item("q1")], "metadata": {"a": 1}}, "invalid_metadata", "metadata.a"),
        ({"requests": [{"custom_id": "q1", "body": {}}], "model": "gpt"}, "invalid_model", "model"),
    ],
)  # fmt: skip
def test_bodies_that_are_none(
    gateway: LiveGateway, changes: dict[str, Any], code: str, param: str
) -> None:
    assert_refused(post(gateway, create_body(**changes)), 400, code, param)


def test_raw_bodies_that_are_none(gateway: LiveGateway) -> None:
    def send(body: bytes, kind: str = "application/json") -> httpx.Response:
        headers = gateway.auth | {"Content-Type": kind}
        return httpx.post(f"{gateway.openrelay_url}/batches", content=body, headers=headers)

    start = b'{"endpoint":"/v1/chat/completions","completion_window":"24h",'
    for body in (b"", b"[]", b"null", b"{", start + b'"requests":[{}', start + b'"a":NaN}',
                 start + b'"requests":[{}],"requests":[{}]}', start + b'"requests":[\xff]}',
                 start + b'"a":' + b"[" * 100_000):  # fmt: skip
        assert_refused(send(body), 400, "invalid_request", None)
    assert_refused(send(b"{}", "text/plain"), 415, "unsupported_media_type", None)
    assert list(gateway.state.settings.incoming.iterdir()) == []


def test_the_model_hint_is_the_last_to_be_asked(gateway: LiveGateway, commit: str) -> None:
    def ordered(named: bool, **changes: Any) -> str:
        body = create_body(requests=[item("q1") if named else item("q1", model=None)])
        answer = post(gateway, body | changes)
        assert answer.status_code == 200, answer.text
        return answer.json()["model"]

    assert ordered(True, model="reliquary/nowhere") == MODEL
    assert ordered(False, model=MODEL) == MODEL
    assert ordered(False, model="reliquary/nowhere", metadata={"model": MODEL}) == MODEL


def test_idempotent_inline_requests_make_one_file(gateway: LiveGateway) -> None:
    key = gateway.new_key("idempotent")
    client = gateway.openrelay(key)
    headers = {"Idempotency-Key": "idempotency-key-0001"}
    first = create_inline(client, item("q1"), extra_headers=headers)
    assert create_inline(client, item("q1"), extra_headers=headers).id == first.id
    with pytest.raises(openai.ConflictError) as conflict:
        create_inline(client, item("q2"), extra_headers=headers)
    assert conflict.value.code == "idempotency_conflict"
    assert files_of(gateway, key) == [first.input_file_id]


def test_pages_of_batches(gateway: LiveGateway) -> None:
    key = gateway.new_key("pages")
    client = gateway.openrelay(key)
    empty = httpx.get(
        f"{gateway.openrelay_url}/batches", headers={"Authorization": f"Bearer {key}"}
    ).json()
    assert empty == {"object": "list", "data": [], "has_more": False}
    ids = [create_inline(client, item("q1")).id for _ in range(5)][::-1]
    for limit in (1, 2, 4, 5):
        assert [batch.id for batch in client.batches.list(limit=limit)] == ids
    page = client.batches.list(limit=2, after=ids[1]).to_dict()
    assert (page["first_id"], page["last_id"], page["has_more"]) == (ids[2], ids[3], True)
    for query in ("limit=0", "limit=101", "limit=x", "after=x", "after=", "limit=1&limit=1"):
        url = f"{gateway.openrelay_url}/batches?{query}"
        answer = httpx.get(url, headers=gateway.auth)
        assert_refused(answer, 400, "invalid_request", query.partition("=")[0])


def test_cancel(gateway: LiveGateway) -> None:
    tries: list[str] = []
    transport = httpx2.Client(event_hooks={"request": [lambda request: tries.append("x")]})
    client = gateway.openrelay(max_retries=3, http_client=transport)
    batch = client.batches.cancel(create_inline(client, item("q1")).id)
    assert batch.status in ("cancelling", "cancelled")
    assert wait(client, batch.id).status == "cancelled"
    check_ended_in_both(gateway, batch.id, ["q1"])
    tries.clear()
    with pytest.raises(openai.ConflictError) as refused:
        client.batches.cancel(batch.id)
    assert (refused.value.code, len(tries)) == ("batch_not_cancellable", 1)


def test_others_see_nothing(gateway: LiveGateway, file_id: str) -> None:
    batch_id = create_inline(gateway.openrelay(), item("q1")).id
    stranger = {"Authorization": f"Bearer {gateway.new_key('stranger')}"}
    for method, path, code in (
        ("GET", f"/batches/{batch_id}", "batch_not_found"),
        ("POST", f"/batches/{batch_id}/cancel", "batch_not_found"),
        ("GET", f"/files/{file_id}", "file_not_found"),
        ("GET", f"/files/{file_id}/content", "file_not_found"),
        ("DELETE", f"/files/{file_id}", "file_not_found"),
    ):
        answer = httpx.request(method, gateway.openrelay_url + path, headers=stranger)
        assert_refused(answer, 404, code, None)
    body = create_body(input_file_id=file_id)
    refused = post(gateway, body, gateway.new_key("stranger"))
    assert_refused(refused, 404, "file_not_found", "input_file_id")


def test_a_closed_account_finds_no_routes(gateway: LiveGateway) -> None:
    key = gateway.new_key("closing")
    headers = {"Authorization": f"Bearer {key}"}
    store = gateway.state.store
    routes = ("/files", "/batches", "/models", "/files/file-x", "/batches/batch_x")
    assert httpx.get(f"{gateway.openrelay_url}/files", headers=headers).status_code == 200
    gateway.run(set_account_state(store, "closing", AccountState.CLOSED))
    for path in routes:
        answer = httpx.get(gateway.openrelay_url + path, headers=headers)
        assert_refused(answer, 404, "orders_unavailable", None)
    answer = httpx.get(f"{gateway.base_url}/files", headers=headers)
    assert_refused(answer, 403, "orders_unavailable", None)
    gateway.run(set_account_state(store, "closing", AccountState.OPEN))
    assert httpx.get(f"{gateway.openrelay_url}/files", headers=headers).status_code == 200


def test_a_revoked_key_opens_nothing_at_once(gateway: LiveGateway) -> None:
    key = gateway.new_key("revoking")
    client = gateway.openrelay(key)
    assert list(client.files.list()) == []
    gateway.run(revoke_key(gateway.state.store, key[:12], gateway.state.now_ms()))
    for call in (client.files.list, client.batches.list, client.models.list):
        with pytest.raises(openai.AuthenticationError) as refused:
            call()
        assert refused.value.code == "invalid_api_key"


@pytest.mark.parametrize("header", [None, "Bearer x", "Bearer rlq_" + "0" * 48])
def test_keys_that_are_none(gateway: LiveGateway, header: str | None) -> None:
    headers = {} if header is None else {"Authorization": header}
    for method, path in (("GET", "/files"), ("POST", "/files"), ("POST", "/batches"),
                         ("GET", "/models"), ("DELETE", "/files/x")):  # fmt: skip
        answer = httpx.request(method, gateway.openrelay_url + path, headers=headers)
        assert_refused(answer, 401, "invalid_api_key", None)


def test_quotes_of_a_day_are_limited(commit: str, tmp_path_factory: Any) -> None:
    with live_gateway(tmp_path_factory.mktemp("quotes"), quotes_per_day=3) as limited:
        client = limited.openrelay()
        headers = {"Idempotency-Key": "idempotency-key-0001"}
        first = create_inline(client, item("q1"), extra_headers=headers)
        create_inline(client, item("q1"), extra_headers=headers)
        # What cannot be quoted is no quote; an order that then finds no place has been quoted.
        with pytest.raises(openai.UnprocessableEntityError):
            create_inline(client, item("q1", stop="x"))
        strict = limited.client()
        for _ in range(2):
            strict.batches.create(
                input_file_id=first.input_file_id, endpoint=CHAT, completion_window="24h"
            )
        with pytest.raises(openai.RateLimitError) as refused:
            create_inline(client, item("q1"))
        assert refused.value.code == "rate_limited"
        assert refused.value.response.headers["retry-after"] == "60"
        assert "x-should-retry" not in refused.value.response.headers
        assert files_of(limited, limited.key) == [first.input_file_id]
        assert create_inline(client, item("q1"), extra_headers=headers).id == first.id
