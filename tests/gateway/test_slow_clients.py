"""Clients that are slow on purpose: half requests, trickling bodies, answers that nobody reads.

Each attack runs against a live gateway with small limits; a request of somebody else goes through
while it lasts.
"""

import contextlib
import resource
import select
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from http.client import HTTPConnection
from urllib.parse import urlsplit

import httpx
import pytest
from bittensor_core import Keypair
from live_gateway import LiveGateway, live_gateway

from gateway import connections
from gateway.api import bodies, signed
from gateway.api.middleware import FloodGate

UNKNOWN = "00000000-0000-7000-8000-000000000000"


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveGateway]:
    with live_gateway(tmp_path_factory.mktemp("gateway")) as running:
        yield running


@pytest.fixture(scope="module")
def hotkey(gateway: LiveGateway) -> str:
    """An honest node's hotkey, which everybody can read on the chain."""
    key = Keypair.create_from_mnemonic(Keypair.generate_mnemonic()).ss58_address
    gateway.register(key)
    return key


def connect(gateway: LiveGateway, sent: bytes = b"") -> socket.socket:
    place = urlsplit(gateway.origin)
    connection = socket.create_connection((place.hostname, place.port), timeout=30)
    connection.sendall(sent)
    return connection


def slow_result(hotkey: str, arrived: bytes = b"{") -> bytes:
    """The start of a result that is claimed to be of 60 MB, in an honest node's name."""
    head = (
        f"POST /nodes/v1/leases/{UNKNOWN}/result HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
        f"X-Bittensor-Hotkey: {hotkey}\r\nContent-Length: 60000000\r\n\r\n"
    )
    return head.encode() + arrived


def slow_create(gateway: LiveGateway) -> bytes:
    return (
        "POST /api/openai/v1/batches HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
        f"Authorization: {gateway.auth['Authorization']}\r\n"
        "Content-Type: application/json\r\nContent-Length: 100\r\n"
        "Expect: 100-continue\r\n\r\n"
    ).encode()


# Until those who are slow wait for nothing but themselves: a burst of them is at work for a moment,
# and a download until its buffers are full.
SETTLE_SECONDS = 20


def served(gateway: LiveGateway) -> bool:
    """Whether somebody else's requests are answered, with and without a body."""
    listed = httpx.get(f"{gateway.base_url}/files", headers=gateway.auth)
    created = httpx.post(f"{gateway.base_url}/batches", json={}, headers=gateway.auth)
    return (listed.status_code, created.status_code) == (200, 400)


def served_once_settled(gateway: LiveGateway) -> bool:
    """As ``served``, with time to take the burst of slow clients in; they stay all the while."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while not served(gateway):
        if time.monotonic() > deadline:
            return False
    return True


def read_all(connection: socket.socket) -> bytes:
    received = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := connection.recv(65_536):
            received += piece
    return received


@pytest.mark.parametrize("start", [b"", b"GET /api/openai", b"GET / HTTP/1.1\r\nHost: x\r\n"])
def test_idle_connections_make_room(
    gateway: LiveGateway, start: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 100)
    with ExitStack() as stack:
        idle = [stack.enter_context(connect(gateway, start)) for _ in range(400)]
        assert served(gateway)
        assert read_all(idle[0]) == b""
        idle[-1].setblocking(False)
        with pytest.raises(BlockingIOError):
            idle[-1].recv(1)


def test_a_request_at_work_is_not_cut_off(
    gateway: LiveGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 20)
    with ExitStack() as stack:
        slow = stack.enter_context(connect(gateway, slow_create(gateway)))
        assert slow.recv(1_000).startswith(b"HTTP/1.1 100 ")
        for _ in range(60):
            stack.enter_context(connect(gateway))
        assert served(gateway)
        slow.sendall(b"{" + b" " * 98 + b"}")
        assert read_all(slow).startswith(b"HTTP/1.1 400 ")


def test_the_connection_that_waited_longest_gives_way(
    gateway: LiveGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that sends one request after the other keeps its place among idle ones."""
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 30)
    place = urlsplit(gateway.origin)
    with ExitStack() as stack:
        own = HTTPConnection(place.netloc, timeout=30)
        stack.callback(own.close)
        own.connect()
        first = own.sock
        for _ in range(10):
            own.request("GET", "/api/openai/v1/files", headers=gateway.auth)
            with own.getresponse() as answer:
                assert (answer.status, answer.read()[:1]) == (200, b"{")
            for _ in range(10):
                stack.enter_context(connect(gateway))
        assert own.sock is first


@pytest.mark.parametrize("kind", ["unproven", "customer"])
def test_slow_bodies_take_nobodys_place(
    gateway: LiveGateway, hotkey: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FloodGate, "limit", 3)
    monkeypatch.setattr(signed, "SIGNATURE_SECONDS", 600.0)
    monkeypatch.setattr(bodies, "BODY_PAUSE_SECONDS", 600.0)
    monkeypatch.setattr(bodies, "BODY_GRACE_SECONDS", 600.0)
    start = slow_result(hotkey) if kind == "unproven" else slow_create(gateway)
    with ExitStack() as stack:
        for _ in range(40):
            stack.enter_context(connect(gateway, start))
        assert served_once_settled(gateway)


def test_thousands_of_idle_connections(
    gateway: LiveGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of them send nothing, half of them half a request; all stay, and others are served."""
    monkeypatch.setattr(connections, "HEADER_SECONDS", 600.0)
    half = b"GET /api/openai/v1/files HTTP/1.1\r\nHost: x\r\n"
    with open_files(8_000), ExitStack() as stack:
        idle = [
            stack.enter_context(connect(gateway, half if at % 2 else b"")) for at in range(3_000)
        ]
        with gateway.client() as client:
            uploaded = client.files.create(file=b"{}\n", purpose="batch")
            assert client.files.content(uploaded.id).content == b"{}\n"
        assert served(gateway)
        watch = select.poll()
        for connection in idle:
            watch.register(connection, select.POLLIN | select.POLLHUP)
        assert watch.poll(0) == []
        idle[1].sendall(f"Authorization: {gateway.auth['Authorization']}\r\n\r\n".encode())
        assert idle[1].recv(100).startswith(b"HTTP/1.1 200 ")


@contextlib.contextmanager
def open_files(wanted: int) -> Iterator[None]:
    """Let this process have so many files open, which are both ends of its connections."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft, hard = before
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip(f"the system allows {hard} open files")
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_the_slowest_body_is_given_up(
    gateway: LiveGateway, hotkey: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "MAX_BODIES_AT_ONCE", 4)
    with ExitStack() as stack:
        fast = stack.enter_context(connect(gateway, slow_result(hotkey, b" " * 4_000_000)))
        slow = [stack.enter_context(connect(gateway, slow_result(hotkey))) for _ in range(3)]
        time.sleep(0.3)
        late = [stack.enter_context(connect(gateway, slow_result(hotkey))) for _ in range(3)]
        for connection in slow:
            answer = read_all(connection)
            assert answer.startswith(b"HTTP/1.1 503 ")
            assert b"gateway_busy" in answer
        for connection in (fast, *late):
            connection.setblocking(False)
            with pytest.raises(BlockingIOError):
                connection.recv(1)
        assert served(gateway)


def test_a_signed_body_has_the_life_of_its_signature(
    gateway: LiveGateway, hotkey: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signed, "SIGNATURE_SECONDS", 0.2)
    with connect(gateway, slow_result(hotkey)) as connection:
        answer = read_all(connection)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"body_too_slow" in answer


def test_readers_that_stall_take_nobodys_place(
    gateway: LiveGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Downloads wait for their readers outside the gate, but each account has a number of them."""
    file_id = gateway.client().files.create(file=b"x" * 30_000_000, purpose="batch").id
    monkeypatch.setattr(gateway.state.downloads, "_limit", 8)
    head = (
        f"GET /api/openai/v1/files/{file_id}/content HTTP/1.1\r\nHost: x\r\n"
        f"Authorization: {gateway.auth['Authorization']}\r\n\r\n"
    ).encode()
    with ExitStack() as stack:
        for _ in range(8):
            stalled = stack.enter_context(connect(gateway, head))
            assert stalled.recv(100).startswith(b"HTTP/1.1 200 ")
        # From here on they wait for their readers, once what lies between is full.
        monkeypatch.setattr(FloodGate, "limit", 3)
        assert served_once_settled(gateway)
        url = f"{gateway.base_url}/files/{file_id}/content"
        refused = httpx.get(url, headers=gateway.auth)
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "rate_limited")
        assert "8 downloads are under way" in refused.json()["error"]["message"]
        other = gateway.new_key("another")
        listed = httpx.get(
            f"{gateway.base_url}/files", headers={"Authorization": f"Bearer {other}"}
        )
        assert listed.status_code == 200


def test_who_is_refused_while_sending_reads_why(gateway: LiveGateway) -> None:
    """Of a connection that ends with its answer, too: a reset would take the answer along."""
    size = 8 * 1024 * 1024
    with connect(gateway) as connection:
        connection.sendall(
            b"PUT /api/v1/files/file-x/parts/1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
            b"Authorization: Bearer none\r\nContent-Length: %d\r\n\r\n" % size
        )
        for _ in range(size // 2**16):
            connection.sendall(b"x" * 2**16)
            # What is answered at once is answered in the middle of the body.
            time.sleep(0.001)
        answer = read_all(connection)
    assert answer.startswith(b"HTTP/1.1 401 ") and answer.endswith(b"}"), answer


def test_who_sends_on_and_on_is_cut_off(
    gateway: LiveGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "LINGER_SECONDS", 0.5)
    began = time.monotonic()
    with connect(gateway) as connection, pytest.raises(ConnectionError):
        connection.sendall(
            b"POST /api/v1/files HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
            b"Content-Length: 999999\r\n\r\n"
        )
        while time.monotonic() < began + 20:
            connection.sendall(b"x")
            time.sleep(0.02)
