"""The edge of a live gateway: keys, errors of every kind, and connections that misbehave."""

import asyncio
import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from urllib.parse import urlsplit

import httpx
import openai
import pytest
from live_gateway import LiveGateway, live_gateway

from gateway import connections
from gateway.accounts import AccountError, create_account, set_account_state
from gateway.api.middleware import FloodGate
from gateway.api_keys import create_key
from gateway.store.tables import AccountState

TYPES = {
    500: "server_error",
    400: "invalid_request_error",
    401: "authentication_error",
    403: "invalid_request_error",
    404: "not_found_error",
    405: "invalid_request_error",
    413: "invalid_request_error",
    415: "invalid_request_error",
    429: "rate_limit_error",
}


# All methods of a path, whatever the method that was refused.
ALLOWED = {
    "/api/openai/v1/files": "GET, POST",
    "/api/openai/v1/files/file-x": "GET",
    "/api/openai/v1/batches": "GET, POST",
    "/api/openai/v1/batches/b/cancel": "POST",
    "/v1/files/file-x": "DELETE, GET",
    "/v1/files/file-x/content": "GET, HEAD",
}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveGateway]:
    with live_gateway(tmp_path_factory.mktemp("gateway")) as running:
        yield running


def assert_error(response: httpx.Response, status: int, code: str) -> None:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    assert response.headers["x-request-id"].startswith("req_")
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["code"] == code
    assert error["type"] == TYPES[status]
    assert error["param"] is None or error["param"] != "None"


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Bearer",
        "Bearer x y",
        "Bearer rlq_" + "0" * 48,
        "Bearer rlq_" + "0" * 47,
        "Bearer RLQ_" + "0" * 48,
        "Basic cmxxOng=",
        "Bearer rlq_\xff",
    ],
)
def test_keys_that_are_none(gateway: LiveGateway, header: str | None) -> None:
    headers = [] if header is None else [(b"Authorization", header.encode("latin-1"))]
    for method, path in [
        ("GET", "/files"),
        ("POST", "/files"),
        ("GET", "/batches"),
        ("POST", "/batches"),
        ("GET", "/files/file-x/content"),
        ("POST", "/batches/batch_x/cancel"),
    ]:
        response = httpx.request(method, gateway.base_url + path, headers=headers)
        assert_error(response, 401, "invalid_api_key")
        assert response.headers["www-authenticate"] == "Bearer"


def test_two_keys_are_none(gateway: LiveGateway) -> None:
    headers = [("Authorization", gateway.auth["Authorization"])] * 2
    assert_error(httpx.get(f"{gateway.base_url}/files", headers=headers), 401, "invalid_api_key")


def test_key_in_any_case_of_the_scheme(gateway: LiveGateway) -> None:
    headers = {"Authorization": f"bearer {gateway.key}"}
    assert httpx.get(f"{gateway.base_url}/files", headers=headers).status_code == 200


def test_official_client_sees_the_right_exceptions(gateway: LiveGateway) -> None:
    with pytest.raises(openai.AuthenticationError):
        gateway.client("rlq_" + "0" * 48).files.list()
    with pytest.raises(openai.NotFoundError) as missing:
        gateway.client().files.retrieve("file-x")
    assert missing.value.code == "file_not_found"
    assert missing.value.request_id is not None


def test_closed_account(gateway: LiveGateway) -> None:
    key = gateway.new_key("closing")

    with pytest.raises(openai.NotFoundError):
        gateway.client(key).files.retrieve("file-x")
    gateway.run(set_account_state(gateway.state.store, "closing", AccountState.CLOSED))
    with pytest.raises(openai.PermissionDeniedError) as refused:
        gateway.client(key).files.list()
    assert refused.value.code == "orders_unavailable"


def test_expired_key(gateway: LiveGateway) -> None:
    soon = gateway.state.now_ms() + 60_000
    key = gateway.new_key("expiring", expires_at_ms=soon)
    assert list(gateway.client(key).files.list()) == []
    with pytest.raises(AccountError):
        gateway.new_key("expiring", expires_at_ms=1)


def test_scopes_that_do_not_exist(gateway: LiveGateway) -> None:
    with pytest.raises(AccountError):
        gateway.new_key("default", ("orders:everything",))
    with pytest.raises(AccountError):
        gateway.new_key("default", ())


def test_keys_are_stored_hashed(gateway: LiveGateway) -> None:
    secret = gateway.key.removeprefix("rlq_")[9:]
    for file in gateway.state.settings.data.glob("gateway.sqlite*"):
        assert secret.encode() not in file.read_bytes()


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/", 404, "not_found"),
        ("GET", "/nowhere", 404, "not_found"),
        ("GET", "/api/openai/v1", 404, "not_found"),
        ("GET", "/api/openai/v1/files/", 404, "not_found"),
        ("GET", "/api/openai/v1/files//content", 404, "not_found"),
        ("GET", "/openapi.json", 404, "not_found"),
        ("PUT", "/api/openai/v1/files", 405, "method_not_allowed"),
        ("DELETE", "/api/openai/v1/files/file-x", 405, "method_not_allowed"),
        ("GET", "/api/openai/v1/batches/b/cancel", 405, "method_not_allowed"),
        ("PATCH", "/api/openai/v1/batches", 405, "method_not_allowed"),
        ("OPTIONS", "/v1/files/file-x", 405, "method_not_allowed"),
        ("POST", "/v1/files/file-x/content", 405, "method_not_allowed"),
        ("GET", "/api/openai/v1/files/a%20b", 400, "invalid_request"),
        ("GET", "/api/openai/v1/files/" + "a" * 81, 400, "invalid_request"),
        ("GET", "/api/openai/v1/batches/%00", 400, "invalid_request"),
        ("GET", "/api/openai/v1/batches/nonsense", 404, "batch_not_found"),
        ("POST", "/api/openai/v1/batches/nonsense/cancel", 404, "batch_not_found"),
        ("GET", "/api/v1/dataset-orders/nonsense", 404, "not_found"),
    ],
)
def test_routes_that_do_not_answer(
    gateway: LiveGateway, method: str, path: str, status: int, code: str
) -> None:
    response = httpx.request(method, gateway.origin + path, headers=gateway.auth)
    assert_error(response, status, code)
    if status == 405:
        assert response.headers["allow"] == ALLOWED[path]


@pytest.mark.parametrize(
    "query",
    ["limit=0", "limit=-1", "limit=101", "limit=1000", "limit=abc", "limit=1.5", "limit=1.0",
     "limit=", "limit=%201", "limit=1_0", "limit=1&limit=1", "limit=99999999999999999999"],
)  # fmt: skip
def test_limits_that_are_none(gateway: LiveGateway, query: str) -> None:
    response = httpx.get(f"{gateway.base_url}/batches?{query}", headers=gateway.auth)
    assert_error(response, 400, "invalid_request")
    assert response.json()["error"]["param"] == "limit"
    message = response.json()["error"]["message"]
    assert message.startswith(("limit: must be ", "Give limit "))


@pytest.mark.parametrize("query", ["after=", "after=batch_x", "after=a&after=b"])
def test_cursors_that_are_none(gateway: LiveGateway, query: str) -> None:
    response = httpx.get(f"{gateway.base_url}/batches?{query}", headers=gateway.auth)
    assert_error(response, 400, "invalid_request")
    assert response.json()["error"]["param"] == "after"


def test_empty_list(gateway: LiveGateway) -> None:
    key = gateway.new_key("nobody")
    headers = {"Authorization": f"Bearer {key}"}
    for query in ("", "?limit=1", "?limit=100", "?unknown=1"):
        answer = httpx.get(f"{gateway.base_url}/batches{query}", headers=headers).json()
        assert answer == {
            "object": "list", "data": [], "first_id": None, "last_id": None, "has_more": False,
        }  # fmt: skip


def test_bodies_that_are_no_create_body(gateway: LiveGateway) -> None:
    url = f"{gateway.base_url}/batches"

    def post(body: bytes | Iterator[bytes], kind: str = "application/json") -> httpx.Response:
        return httpx.post(url, content=body, headers=gateway.auth | {"Content-Type": kind})

    for body in (b"", b"{", b"[]", b"null", b'"x"', b"{}x", b'{"a":1,"a":2}', b'{"a":NaN}',
                 b'{"a":"\\ud800"}', b"\xff", b"[" * 100_000, b'{"a":' * 1_000):  # fmt: skip
        assert_error(post(body), 400, "invalid_request")
    assert_error(post(b"{}", "text/plain"), 415, "unsupported_media_type")
    assert_error(post(b" " * (256 * 1024 + 1)), 413, "request_too_large")
    # The largest that there is, all of it escaped, is read.
    metadata = {f"{at:02}" + "😀" * 62: "😀" * 512 for at in range(16)}
    order = {"endpoint": "/v1/completions", "completion_window": "24h", "metadata": metadata}
    largest = json.dumps(order | {"input_file_id": "file-x"}).encode()
    assert_error(post(largest), 404, "file_not_found")
    assert_error(post(iter([b" " * 200_000] * 2)), 413, "request_too_large")


def test_what_nobody_foresaw(gateway: LiveGateway, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise RuntimeError("a detail that is nobody's business")

    monkeypatch.setattr("gateway.api.openai_files.files_of", fail)
    response = httpx.get(f"{gateway.base_url}/files", headers=gateway.auth)
    assert_error(response, 500, "server_error")
    assert "detail" not in response.text
    with pytest.raises(openai.InternalServerError):
        gateway.client().files.list()
    monkeypatch.undo()
    assert httpx.get(f"{gateway.base_url}/files", headers=gateway.auth).status_code == 200


def test_too_many_requests_at_once(gateway: LiveGateway, monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()

    async def wait(*_: object, **__: object) -> tuple[list[object], bool]:
        await asyncio.to_thread(release.wait, 30)
        return [], False

    monkeypatch.setattr("gateway.api.openai_files.files_of", wait)
    monkeypatch.setattr(FloodGate, "limit", 2)
    url = f"{gateway.base_url}/files"
    with ThreadPoolExecutor() as pool:
        slow = [pool.submit(httpx.get, url, headers=gateway.auth, timeout=60) for _ in range(4)]
        done = as_completed(slow)
        refused = [next(done).result() for _ in range(2)]
        release.set()
        served = [answer.result() for answer in done]
    for answer in refused:
        assert_error(answer, 429, "rate_limited")
        assert answer.headers["retry-after"] == "1"
    assert [answer.status_code for answer in served] == [200, 200]


def connect(gateway: LiveGateway) -> socket.socket:
    place = urlsplit(gateway.origin)
    return socket.create_connection((place.hostname, place.port), timeout=20)


def read_all(connection: socket.socket) -> bytes:
    received = b""
    while piece := connection.recv(65_536):
        received += piece
    return received


def assert_closed(connection: socket.socket) -> None:
    with contextlib.suppress(ConnectionResetError):
        assert read_all(connection) == b""


@pytest.mark.parametrize(
    "request_bytes",
    [b"nonsense\r\n\r\n", b"GET /\r\n\r\n", b"GET / HTTP/1.1\r\nX: " + b"a" * 100_000 + b"\r\n\r\n",
     b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: a\r\n\r\n"],
)  # fmt: skip
def test_what_is_no_http(gateway: LiveGateway, request_bytes: bytes) -> None:
    with connect(gateway) as connection:
        connection.sendall(request_bytes)
        head, _, body = read_all(connection).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert b"content-type: application/json" in head.lower()
    assert json.loads(body)["error"]["code"] == "invalid_request"


@pytest.mark.parametrize("start", [b"", b"GET /api/openai", b"GET / HTTP/1.1\r\nHost: x\r\n"])
def test_half_requests_are_closed(
    gateway: LiveGateway, start: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEADER_SECONDS", 0.2)
    with connect(gateway) as connection:
        connection.sendall(start)
        assert_closed(connection)


def test_readers_that_stall_are_given_up(
    gateway: LiveGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = 30_000_000
    file_id = gateway.client().files.create(file=b"x" * size, purpose="batch").id
    given_up = threading.Event()
    lost = connections.BoundedProtocol.connection_lost

    def note(protocol: connections.BoundedProtocol, error: Exception | None) -> None:
        lost(protocol, error)
        if protocol.scope and protocol.scope["path"].endswith(f"{file_id}/content"):
            given_up.set()

    monkeypatch.setattr(connections.BoundedProtocol, "connection_lost", note)
    monkeypatch.setattr(connections, "STALL_SECONDS", 0.2)
    head = (
        f"GET /api/openai/v1/files/{file_id}/content HTTP/1.1\r\nHost: x\r\n"
        f"Authorization: {gateway.auth['Authorization']}\r\n\r\n"
    )
    with connect(gateway) as connection:
        connection.sendall(head.encode())
        assert given_up.wait(30)
        received = b""
        with contextlib.suppress(ConnectionResetError):
            received = read_all(connection)
    assert len(received) < size


def test_half_a_body_is_refused(gateway: LiveGateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.api.bodies.BODY_PAUSE_SECONDS", 0.2)
    head = (
        "POST /api/openai/v1/batches HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
        f"Authorization: {gateway.auth['Authorization']}\r\n"
        "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
    )
    with connect(gateway) as connection:
        connection.sendall(head.encode())
        answer = read_all(connection)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"body_too_slow" in answer


def test_too_many_connections(gateway: LiveGateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 0)
    with contextlib.ExitStack() as stack:
        # Those that earlier tests left idle have waited longer, and give way before the first.
        opened = [stack.enter_context(connect(gateway)) for _ in range(100)]
        assert_closed(opened[0])
    monkeypatch.undo()
    assert httpx.get(f"{gateway.base_url}/files", headers=gateway.auth).status_code == 200


def test_an_account_creates_so_many_batches_at_once(
    gateway: LiveGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = {"input_file_id": "file-x", "endpoint": "/v1/completions", "completion_window": "24h"}
    url = f"{gateway.base_url}/batches"
    assert_error(httpx.post(url, json=body, headers=gateway.auth), 404, "file_not_found")
    monkeypatch.setattr(gateway.state.creations, "_limit", 0)
    refused = httpx.post(url, json=body, headers=gateway.auth)
    assert_error(refused, 429, "rate_limited")
    assert refused.headers["retry-after"] == "5"


def test_idle_connections_stop_nobody(gateway: LiveGateway) -> None:
    idle = [connect(gateway) for _ in range(300)]
    try:
        assert httpx.get(f"{gateway.base_url}/files", headers=gateway.auth).status_code == 200
    finally:
        for connection in idle:
            connection.close()


def test_switched_off(tmp_path_factory: pytest.TempPathFactory) -> None:
    with live_gateway(tmp_path_factory.mktemp("off"), batches_enabled=False) as off:
        for path in ("/files", "/batches"):
            response = httpx.get(off.base_url + path, headers=off.auth)
            assert_error(response, 404, "not_available")
        assert httpx.get(f"{off.origin}/nodes/v1/gateway").status_code == 200


async def test_a_name_is_one_account(gateway: LiveGateway) -> None:
    async def make() -> tuple[str, str]:
        first = await create_account(gateway.state.store, "twice", 1)
        second = await create_account(gateway.state.store, "twice", 2)
        token = await create_key(gateway.state.store, first, ["orders:write"], 1)
        assert len(token) == 52
        return first.id, second.id

    first, second = gateway.run(make())
    assert first == second
    for name in ("", "a b", "-x", "x" * 81, "a/b"):
        with pytest.raises(AccountError):
            gateway.run(create_account(gateway.state.store, name, 1))
