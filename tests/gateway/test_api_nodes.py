"""The nodes' routes of a live gateway: who gets in, and what everybody else is told."""

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from bittensor import http_auth
from bittensor_core import Keypair
from fastapi.routing import APIRoute
from live_gateway import LiveGateway, live_gateway

from gateway.api import nodes
from gateway.api.rates import BodyBudget, RateLimit
from gateway.errors import GatewayError
from protocol.client import GatewayRefused, NodeClient
from protocol.http_auth import sign_request
from protocol.keys import load_or_create_hotkey
from protocol.messages import WIRE_VERSION, Announcement, LeaseRequest, LoadedModel, Stack

STACK = Stack(
    engine="transformers", version="5", dtype="float32", head_dtype="float32", device="cpu"
)
LOADED = LoadedModel(model="org/name", revision="a" * 40)
MINER = Announcement(role="miner", stack=STACK, architectures=["Qwen3ForCausalLM"], loaded=LOADED)
VALIDATOR = MINER.model_copy(update={"role": "validator"})


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveGateway]:
    with live_gateway(tmp_path_factory.mktemp("gateway")) as running:
        yield running


@pytest.fixture
def miner(gateway: LiveGateway, tmp_path: Path) -> Keypair:
    key = load_or_create_hotkey(tmp_path / "miner")
    gateway.register(key.ss58_address)
    return key


@pytest.fixture
def validator(gateway: LiveGateway, tmp_path: Path) -> Keypair:
    key = load_or_create_hotkey(tmp_path / "validator")
    gateway.register(key.ss58_address, validator_permit=True)
    return key


def send(
    gateway: LiveGateway,
    key: Keypair,
    path: str,
    body: bytes = b"{}",
    *,
    method: str = "POST",
    headers: dict[str, str] | None = None,
    signed: dict[str, Any] | None = None,
) -> httpx.Response:
    """Send a request signed for what ``signed`` says, by default for itself."""
    claims: dict[str, Any] = {
        "method": method,
        "path": path,
        "body": body,
        "receiver_ss58": gateway.state.keypair.ss58_address,
    }
    signature = http_auth.sign(key, **(claims | (signed or {})))
    return httpx.request(
        method, gateway.origin + path, content=body, headers=signature | (headers or {})
    )


def assert_refused(response: httpx.Response, status: int, code: str) -> str:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    assert response.headers["x-request-id"]
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["code"] == code
    return error["message"]


def test_routes_are_those_of_the_document() -> None:
    document = (Path(__file__).parents[2] / "docs" / "wire.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^\| `([A-Z]+) (/nodes/v1/[^`]+)` \|", document, re.MULTILINE))
    served = {
        (method, route.path)
        for route in nodes.router.routes
        if isinstance(route, APIRoute)
        for method in route.methods
    }
    assert named == served


def test_identity_needs_no_signature(gateway: LiveGateway) -> None:
    answer = httpx.get(f"{gateway.origin}/nodes/v1/gateway").json()
    assert answer["hotkey"] == gateway.state.keypair.ss58_address
    assert answer["wire_version"] == WIRE_VERSION
    assert abs(answer["time"] - time.time()) < 60


async def test_nodes_announce_and_ask(
    gateway: LiveGateway, miner: Keypair, validator: Keypair
) -> None:
    for key, announcement in ((miner, MINER), (validator, VALIDATOR)):
        async with NodeClient(gateway.origin, key) as client:
            await client.announce(announcement)
            assert (await client.demand()).demands == []
            request = LeaseRequest(role=announcement.role, loaded=LOADED)
            if announcement.role == "miner":
                assert await client.lease_generation(request) is None
            else:
                assert await client.lease_audit(request) is None


async def test_validators_need_a_permit(gateway: LiveGateway, miner: Keypair) -> None:
    async with NodeClient(gateway.origin, miner) as client:
        with pytest.raises(GatewayRefused) as refused:
            await client.announce(VALIDATOR)
        assert (refused.value.status, refused.value.code) == (403, "no_validator_permit")
        with pytest.raises(GatewayRefused) as refused:
            await client.lease_audit(LeaseRequest(role="validator", loaded=LOADED))
        assert (refused.value.status, refused.value.code) == (403, "no_validator_permit")


def test_unsigned(gateway: LiveGateway) -> None:
    for method, path in [
        ("GET", "/demand"),
        ("POST", "/announce"),
        ("POST", "/leases"),
        ("POST", f"/leases/{'0' * 36}/result"),
        ("POST", f"/leases/{'0' * 36}/release"),
    ]:
        response = httpx.request(method, f"{gateway.origin}/nodes/v1{path}")
        assert_refused(response, 401, "unsigned_request")


def test_hotkeys_that_are_not_registered(gateway: LiveGateway, tmp_path: Path) -> None:
    key = load_or_create_hotkey(tmp_path / "stranger")
    assert_refused(send(gateway, key, "/nodes/v1/announce"), 403, "not_registered")
    gateway.register(key.ss58_address)
    assert_refused(send(gateway, key, "/nodes/v1/announce"), 400, "invalid_message")
    gateway.chain.deregister(key.ss58_address)
    gateway.state.neurons.forget()
    assert_refused(send(gateway, key, "/nodes/v1/announce"), 403, "not_registered")


def test_signed_for_something_else(gateway: LiveGateway, miner: Keypair, tmp_path: Path) -> None:
    other = load_or_create_hotkey(tmp_path / "other").ss58_address
    path = "/nodes/v1/announce"
    for claims, code in [
        ({"receiver_ss58": other}, "wrong_receiver"),
        ({"receiver_ss58": None}, "wrong_receiver"),
        ({"body": b"{} "}, "bad_signature"),
        ({"path": "/nodes/v1/demand"}, "bad_signature"),
        ({"path": f"{path}?x=1"}, "bad_signature"),
        ({"method": "GET"}, "bad_signature"),
    ]:
        assert_refused(send(gateway, miner, path, signed=claims), 401, code)
    for header, value, code in [
        ("X-Bittensor-Signature", "0x" + "0" * 128, "bad_signature"),
        ("X-Bittensor-Signature", "nonsense", "malformed_auth"),
        ("X-Bittensor-Nonce", "now", "malformed_auth"),
        ("X-Bittensor-Version", "9", "malformed_auth"),
    ]:
        assert_refused(send(gateway, miner, path, headers={header: value}), 401, code)


def test_query_is_signed_too(gateway: LiveGateway, miner: Keypair) -> None:
    response = send(gateway, miner, "/nodes/v1/demand?a=%20b", b"", method="GET")
    assert response.status_code == 200


def test_clock_skew_is_told_apart_from_replay(gateway: LiveGateway, miner: Keypair) -> None:
    body = MINER.model_dump_json().encode()
    now = time.time_ns()
    for seconds in (-3_600, -30, 30):
        late = send(
            gateway, miner, "/nodes/v1/announce", body, signed={"nonce_ns": now + seconds * 10**9}
        )
        assert "clock reads" in assert_refused(late, 401, "clock_skew")
    assert (
        send(gateway, miner, "/nodes/v1/announce", body, signed={"nonce_ns": now}).status_code
        == 204
    )
    replay = send(gateway, miner, "/nodes/v1/announce", body, signed={"nonce_ns": now})
    assert_refused(replay, 401, "replayed_request")


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"role": "king"}, "role"),
        ({"max_samples": 0}, "max_samples"),
        ({"max_samples": 1.0}, "max_samples"),
        ({"max_samples": True}, "max_samples"),
        ({"stack": None}, "stack"),
        ({"architectures": ["x" * 201]}, "architectures.0"),
        ({"surprise": 1}, "surprise"),
        ({"loaded": {"model": "org/name", "revision": "main"}}, "loaded.revision"),
    ],
)
def test_messages_that_are_none(
    gateway: LiveGateway, miner: Keypair, change: dict[str, Any], place: str
) -> None:
    body = json.dumps(MINER.model_dump() | change).encode()
    response = send(gateway, miner, "/nodes/v1/announce", body)
    message = assert_refused(response, 400, "invalid_message")
    assert response.json()["error"]["param"] == place
    assert place in message
    for junk in (b"", b"[]", b"{", b"\xff", b"[" * 100_000):
        assert_refused(send(gateway, miner, "/nodes/v1/announce", junk), 400, "invalid_message")


def test_body_limits(gateway: LiveGateway, miner: Keypair) -> None:
    large = b" " * 1_100_000
    assert_refused(send(gateway, miner, "/nodes/v1/announce", large), 413, "request_too_large")
    headers = sign_request(
        miner,
        method="POST",
        path="/nodes/v1/announce",
        body=b"{}",
        receiver=gateway.state.keypair.ss58_address,
    )
    chunked = httpx.post(
        f"{gateway.origin}/nodes/v1/announce", content=iter([b"{}"]), headers=headers
    )
    assert_refused(chunked, 411, "length_required")


def test_lease_ids_of_nobody(gateway: LiveGateway, miner: Keypair) -> None:
    unknown = "00000000-0000-7000-8000-000000000000"
    path = f"/nodes/v1/leases/{unknown}/release"
    assert_refused(send(gateway, miner, path, b""), 404, "lease_not_found")
    path = "/nodes/v1/leases/nonsense/release"
    assert_refused(send(gateway, miner, path, b""), 400, "invalid_request")


def test_rate_counts_only_what_a_hotkey_signed(
    gateway: LiveGateway, miner: Keypair, monkeypatch: pytest.MonkeyPatch
) -> None:
    rates = gateway.state.node_rates
    path = "/nodes/v1/announce"
    monkeypatch.setattr(rates, "_burst", 3)
    monkeypatch.setattr(rates, "_per_second", 0.001)
    for _ in range(10):
        forged = send(gateway, miner, path, headers={"X-Bittensor-Signature": "0x" + "0" * 128})
        assert_refused(forged, 401, "bad_signature")
    body = MINER.model_dump_json().encode()
    assert [send(gateway, miner, path, body).status_code for _ in range(3)] == [204] * 3
    limited = send(gateway, miner, path, body)
    assert_refused(limited, 429, "rate_limited")
    assert 1 <= int(limited.headers["retry-after"]) <= 60


def test_bucket_fills_with_time() -> None:
    now = [0.0]
    rate = RateLimit(2.0, 3, lambda: now[0])
    for _ in range(3):
        rate.take("a")
    with pytest.raises(GatewayError) as refused:
        rate.take("a")
    assert refused.value.retry_after == 1
    rate.take("b")
    now[0] = 0.5
    rate.take("a")
    with pytest.raises(GatewayError):
        rate.take("a")


def test_budget_is_given_back() -> None:
    budget = BodyBudget(10)
    with budget.open() as first, budget.open() as second:
        first.take(6)
        with pytest.raises(GatewayError) as refused:
            second.take(5)
        assert refused.value.status == 503
        second.take(4)
    with budget.open() as whole:
        whole.take(10)
