"""Every kind of error through every client: the right exception, and final ones in one attempt."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from clients import NAMES, Client, ClientError, expected_class, open_client
from live_gateway import LiveGateway, live_gateway
from recording_proxy import RecordingProxy, recording_proxy
from small_model import MODEL, small_model_hub

from gateway.accounts import find_account, set_account_state
from gateway.api.middleware import FloodGate
from gateway.api.openai_files import MAX_UPLOAD_BYTES
from gateway.api_keys import list_keys
from gateway.store.tables import AccountState

CHAT = "/v1/chat/completions"
NOBODY = "00000000-0000-7000-8000-000000000000"
UNKNOWN_KEY = "rlq_" + "0" * 48


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveGateway]:
    folder = tmp_path_factory.mktemp("gateway")
    with small_model_hub(tmp_path_factory.mktemp("hub")), live_gateway(folder) as running:
        yield running


@pytest.fixture(scope="module", params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def proxy(gateway: LiveGateway) -> Iterator[RecordingProxy]:
    with recording_proxy(gateway.origin) as running:
        yield running


@pytest.fixture(scope="module")
def client(gateway: LiveGateway, proxy: RecordingProxy, name: str) -> Iterator[Client]:
    """A client with an account of its own, that retries once."""
    key = gateway.new_key(f"of-{name}")
    with open_client(name, f"{proxy.origin}/api/openai/v1", key, max_retries=1) as opened:
        yield opened


def written(folder: Path, *lines: dict[str, Any]) -> str:
    path = folder / "in.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


def line(custom_id: str, **body: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": "hello"}]
    body = {"model": MODEL, "messages": messages, "max_tokens": 16} | body
    return {"custom_id": custom_id, "method": "POST", "url": CHAT, "body": body}


def refusal(client: Client, name: str, op: str, **arguments: Any) -> tuple[int, str | None]:
    """Make a call that must fail with the class of its status; return status and code."""
    with pytest.raises(ClientError) as caught:
        client.call(op, **arguments)
    told = caught.value.told
    assert told["class"] == expected_class(name, told["status"])
    assert told["request_id"].startswith("req_")
    assert told["type"]
    return told["status"], told["code"]


def test_final_errors_take_one_attempt(
    gateway: LiveGateway, proxy: RecordingProxy, client: Client, name: str, tmp_path: Path
) -> None:
    good = client.call("upload", path=written(tmp_path, line("q1")), purpose="batch")["id"]
    mixed = written(tmp_path, line("q1"), line("q2", temperature=0.5))
    mixed_id = client.call("upload", path=mixed, purpose="batch")["id"]
    body = {"input_file_id": good, "endpoint": CHAT, "completion_window": "24h"}
    headers = {"Idempotency-Key": "idempotency-key-0001"}
    ended = client.call("create", **body, headers=headers)["id"]
    client.call("cancel", id=ended)
    for _ in range(5):
        client.call("create", **body)
    large = tmp_path / "large.jsonl"
    large.write_bytes(b"x" * (MAX_UPLOAD_BYTES + 1))
    calls: list[tuple[int, str, str, dict[str, Any]]] = [
        (401, "invalid_api_key", "files", {"api_key": UNKNOWN_KEY}),
        (403, "insufficient_scope", "files", {"api_key": key_without_scope(gateway)}),
        (403, "orders_unavailable", "files", {"api_key": key_of_closed(gateway, name)}),
        (404, "file_not_found", "content", {"id": f"file-{NOBODY}"}),
        (404, "batch_not_found", "batch", {"id": f"batch_{NOBODY}"}),
        (400, "invalid_file", "upload", {"path": mixed, "purpose": "fine-tune"}),
        (413, "file_too_large", "upload", {"path": str(large), "purpose": "batch"}),
        (400, "invalid_endpoint", "create", body | {"endpoint": "/v1/embeddings"}),
        (400, "invalid_request", "batches", {"limit": 0}),
        (422, "mixed_sampling", "create", body | {"input_file_id": mixed_id}),
        (409, "idempotency_conflict", "create",
         body | {"completion_window": "25h", "headers": headers}),
        (409, "batch_not_cancellable", "cancel", {"id": ended}),
        (429, "order_limit", "create", body),
    ]  # fmt: skip
    for status, code, op, arguments in calls:
        proxy.clear()
        assert refusal(client, name, op, **arguments) == (status, code)
        assert [exchange.status for exchange in proxy.exchanges] == [status], code


def key_without_scope(gateway: LiveGateway) -> str:
    """Make a key that may do nothing, which the gateway itself makes none of."""
    token = gateway.new_key("scopeless")

    async def strip() -> None:
        store = gateway.state.store
        account = await find_account(store, "scopeless")
        async with store.write() as session:
            for key, _ in await list_keys(store, account.id):
                key.scopes = ""
                session.add(key)

    gateway.run(strip())
    return token


def key_of_closed(gateway: LiveGateway, name: str) -> str:
    """Make a key of an account that is closed."""
    token = gateway.new_key(f"closed-{name}")
    closing = set_account_state(gateway.state.store, f"closed-{name}", AccountState.CLOSED)
    gateway.run(closing)
    return token


def test_passing_errors_are_tried_again(
    proxy: RecordingProxy, client: Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy.clear()
    with monkeypatch.context() as patch:
        patch.setattr(FloodGate, "limit", 0)
        assert refusal(client, name, "files") == (429, "rate_limited")
        # A flood that passes is no error: the client comes again after the second it was told.
        over = threading.Timer(0.3, patch.undo)
        over.start()
        client.call("files")
        over.join()
    assert [exchange.status for exchange in proxy.exchanges] == [429, 429, 429, 200]
    proxy.clear()

    async def fail(*_: object, **__: object) -> None:
        raise RuntimeError("nobody foresaw this")

    with monkeypatch.context() as patch:
        patch.setattr("gateway.api.openai_files.files_of", fail)
        assert refusal(client, name, "files") == (500, "server_error")
    assert [exchange.status for exchange in proxy.exchanges] == [500, 500]
    retries = [exchange.headers["x-stainless-retry-count"] for exchange in proxy.exchanges]
    assert retries == ["0", "1"]


def test_node_streams_a_file(gateway: LiveGateway, tmp_path: Path) -> None:
    """The client gives no length of a stream, which the contract refuses in one clean answer."""
    path = written(tmp_path, line("q1"))
    with (
        recording_proxy(gateway.origin) as proxy,
        open_client("node", f"{proxy.origin}/api/openai/v1", gateway.key, max_retries=1) as client,
    ):
        assert refusal(client, "node", "stream", path=path, purpose="batch") == (
            411, "length_required",
        )  # fmt: skip
        assert [exchange.status for exchange in proxy.exchanges] == [411]
