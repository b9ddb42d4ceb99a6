"""The nodes' client against a small server that fakes the gateway's routes, signatures real."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import stamina
from aiohttp import web
from aiohttp.test_utils import TestServer
from bittensor_core import Keypair

from protocol.client import GatewayRefused, GatewayUnavailable, NodeClient, patience
from protocol.documents import lease_statement
from protocol.http_auth import AuthError, InMemoryNonceStore, verify_request
from protocol.keys import load_or_create_hotkey, sign_statement
from protocol.messages import (
    WIRE_VERSION,
    AuditLease,
    Lease,
    LeaseRecord,
    LeaseRequest,
    LoadedModel,
    Result,
    SampleReference,
    Stack,
    Work,
)
from protocol.sampling import Sampling

REVISION = "a" * 40
UNIT = "01890000-0000-7000-8000-000000000001"
LEASE = "01890000-0000-7000-8000-000000000002"
STACK = Stack(
    engine="transformers", version="5", dtype="float32", head_dtype="float32", device="cpu"
)
Handler = Callable[[web.Request], Awaitable[web.Response]]


def _work() -> Work:
    return Work(
        unit_id=UNIT,
        model="org/name",
        revision=REVISION,
        seed=7,
        sampling=Sampling(temperature=0.6, max_tokens=16),
        vocabulary_size=100,
        end_ids=[2],
        prompts=[[1, 2, 3]],
        samples=[SampleReference(prompt=0, sample_index=0)],
    )


class FakeGateway:
    """Answers what a test puts into ``answers``; checks btauth as the real gateway does."""

    def __init__(self, key: Keypair) -> None:
        self.key = key
        self.answers: list[web.Response] = []
        self.refused: list[str] = []
        self.calls = 0
        self.wire_version = WIRE_VERSION
        self._nonces = InMemoryNonceStore()

    async def handle(self, request: web.Request) -> web.Response:
        if request.path == "/nodes/v1/gateway":
            identity = {
                "hotkey": self.key.ss58_address,
                "wire_version": self.wire_version,
                "time": 0.0,
            }
            return web.json_response(identity)
        self.calls += 1
        try:
            verify_request(
                request.headers,
                await request.read(),
                method=request.method,
                path=request.path_qs,
                receiver=self.key.ss58_address,
                nonces=self._nonces,
            )
        except AuthError as error:
            self.refused.append(str(error))
            return web.json_response({"error": {"message": str(error), "code": "auth"}}, status=401)
        return self.answers.pop(0)


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[tuple[FakeGateway, str]]:
    fake = FakeGateway(load_or_create_hotkey(tmp_path / "gateway"))
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", fake.handle)
    stamina.set_testing(True, attempts=3)
    async with TestServer(app) as server:
        yield fake, str(server.make_url("")).rstrip("/")
    stamina.set_testing(False)


@pytest.fixture
def miner(tmp_path: Path) -> Keypair:
    return load_or_create_hotkey(tmp_path / "miner")


REQUEST = LeaseRequest(role="miner", loaded=LoadedModel(model="org/name", revision=REVISION))


def _lease(signer: Keypair, miner: str) -> web.Response:
    work = _work()
    statement = lease_statement(LEASE, 1, miner, 1_800_000_000, work)
    lease = Lease(
        lease_id=LEASE,
        attempt=1,
        expires_at=1_800_000_060.0,
        ends_at=1_800_003_600.0,
        heartbeat_seconds=10.0,
        issued_at=1_800_000_000,
        work=work,
        signature=sign_statement(signer, statement),
    )
    return web.Response(text=lease.model_dump_json(), content_type="application/json")


def _audit(signer: Keypair, miner: str) -> AuditLease:
    """Return an audit lease whose record is signed; the result's signature is not looked at."""
    work = _work()
    statement = lease_statement(LEASE, 1, miner, 1_800_000_000, work)
    return AuditLease(
        lease_id=UNIT,
        attempt=1,
        expires_at=1.0,
        ends_at=2.0,
        heartbeat_seconds=1.0,
        work=work,
        miner=miner,
        record=LeaseRecord(
            lease_id=LEASE,
            issued_at=1_800_000_000,
            gateway=signer.ss58_address,
            signature=sign_statement(signer, statement),
        ),
        result=Result(
            unit_id=UNIT,
            attempt=1,
            lease_digest="0" * 64,
            stack=STACK,
            samples=[[2]],
            root="0" * 64,
            signature="0" * 128,
        ),
    )


def _answer(message: AuditLease) -> web.Response:
    return web.Response(text=message.model_dump_json(), content_type="application/json")


async def test_a_signed_lease_is_taken(gateway: tuple[FakeGateway, str], miner: Keypair) -> None:
    fake, url = gateway
    fake.answers = [_lease(fake.key, miner.ss58_address), web.Response(status=204)]
    async with NodeClient(url, miner) as client:
        lease = await client.lease_generation(REQUEST)
        assert lease is not None
        assert lease.work == _work()
        assert await client.lease_generation(REQUEST) is None
    assert fake.refused == []


async def test_a_lease_that_another_key_signed_is_refused(
    gateway: tuple[FakeGateway, str], miner: Keypair, tmp_path: Path
) -> None:
    fake, url = gateway
    stranger = load_or_create_hotkey(tmp_path / "stranger")
    fake.answers = [
        _lease(stranger, miner.ss58_address),
        _lease(fake.key, stranger.ss58_address),
    ]
    async with NodeClient(url, miner) as client:
        for _ in range(2):
            with pytest.raises(GatewayRefused, match="bad_lease_signature"):
                await client.lease_generation(REQUEST)


AUDIT = LeaseRequest(role="validator", loaded=REQUEST.loaded)
OTHER_TERMS = [
    {"sampling": Sampling(temperature=0.7, max_tokens=16)},
    {"vocabulary_size": 99},
    {"end_ids": [2, 3]},
    {"seed": 8},
    {"prompts": [[1, 2, 4]]},
    {"samples": [SampleReference(prompt=0, sample_index=1)]},
    {"unit_id": LEASE},
]


async def test_an_audit_by_the_signed_terms_is_taken(
    gateway: tuple[FakeGateway, str], miner: Keypair
) -> None:
    fake, url = gateway
    fake.answers = [_answer(_audit(fake.key, miner.ss58_address))]
    async with NodeClient(url, miner) as client:
        lease = await client.lease_audit(AUDIT)
    assert lease is not None and lease.work == _work()


@pytest.mark.parametrize("terms", OTHER_TERMS)
async def test_an_audit_by_other_terms_than_the_miners_is_refused(
    gateway: tuple[FakeGateway, str], miner: Keypair, terms: dict
) -> None:
    fake, url = gateway
    audit = _audit(fake.key, miner.ss58_address)
    work = audit.work.model_copy(update=terms)
    fake.answers = [_answer(audit.model_copy(update={"work": work}))]
    async with NodeClient(url, miner) as client:
        with pytest.raises(GatewayRefused, match="bad_lease_signature"):
            await client.lease_audit(AUDIT)


async def test_an_audit_that_another_gateway_leased_is_refused(
    gateway: tuple[FakeGateway, str], miner: Keypair, tmp_path: Path
) -> None:
    fake, url = gateway
    stranger = load_or_create_hotkey(tmp_path / "stranger")
    other = _audit(stranger, miner.ss58_address)
    own = _audit(fake.key, miner.ss58_address)
    posing = own.record.model_copy(update={"gateway": stranger.ss58_address})
    fake.answers = [
        _answer(one)
        for one in (
            other,
            own.model_copy(update={"record": posing}),
            own.model_copy(update={"attempt": 2}),
            own.model_copy(update={"miner": stranger.ss58_address}),
        )
    ]
    async with NodeClient(url, miner) as client:
        for _ in range(4):
            with pytest.raises(GatewayRefused, match="bad_lease_signature"):
                await client.lease_audit(AUDIT)


async def test_work_of_another_model_commit_is_refused(
    gateway: tuple[FakeGateway, str], miner: Keypair
) -> None:
    fake, url = gateway
    audit = _audit(fake.key, miner.ss58_address)
    fake.answers = [_lease(fake.key, miner.ss58_address), _answer(audit)]
    held = LoadedModel(model="org/name", revision="b" * 40)
    async with NodeClient(url, miner) as client:
        with pytest.raises(GatewayRefused, match="wrong_model"):
            await client.lease_generation(LeaseRequest(role="miner", loaded=held))
        with pytest.raises(GatewayRefused, match="wrong_model"):
            await client.lease_audit(LeaseRequest(role="validator", loaded=held))


async def test_work_with_a_sample_of_no_prompt_is_refused(
    gateway: tuple[FakeGateway, str], miner: Keypair
) -> None:
    fake, url = gateway
    lease = json.loads(_lease(fake.key, miner.ss58_address).text or "")
    lease["work"]["samples"][0]["prompt"] = 1
    fake.answers = [web.json_response(lease)]
    async with NodeClient(url, miner) as client:
        with pytest.raises(GatewayRefused, match=r"bad_answer: Lease\.work: .*names a prompt"):
            await client.lease_generation(REQUEST)


async def test_passing_failures_are_retried_with_fresh_nonces(
    gateway: tuple[FakeGateway, str], miner: Keypair
) -> None:
    fake, url = gateway
    fake.answers = [web.Response(status=503), web.Response(status=429), web.Response(status=204)]
    async with NodeClient(url, miner) as client:
        assert await client.lease_generation(REQUEST) is None
    assert fake.calls == 3
    assert fake.refused == []


async def test_a_final_refusal_is_told_at_once(
    gateway: tuple[FakeGateway, str], miner: Keypair
) -> None:
    fake, url = gateway
    body = {"error": {"message": "the lease is over", "type": "x", "param": None, "code": "over"}}
    fake.answers = [web.json_response(body, status=409)]
    async with NodeClient(url, miner) as client:
        with pytest.raises(GatewayRefused, match="409 over: the lease is over"):
            await client.heartbeat(LEASE, 5)
    assert fake.calls == 1


@pytest.mark.parametrize("body", ["", "[]", '{"expires_at": "soon", "stop": false}', "<html>"])
async def test_a_malformed_answer_names_the_field(
    gateway: tuple[FakeGateway, str], miner: Keypair, body: str
) -> None:
    fake, url = gateway
    fake.answers = [web.Response(text=body)]
    async with NodeClient(url, miner) as client:
        with pytest.raises(GatewayRefused, match="bad_answer: HeartbeatAnswer"):
            await client.heartbeat(LEASE, 5)


async def test_an_unreachable_gateway_is_unavailable(miner: Keypair) -> None:
    stamina.set_testing(True, attempts=2)
    async with NodeClient("http://127.0.0.1:9", miner) as client:
        with pytest.raises(GatewayUnavailable, match=r"127\.0\.0\.1:9"):
            await client.demand()
    stamina.set_testing(False)


async def test_a_gateway_of_another_hotkey_is_refused(
    gateway: tuple[FakeGateway, str], miner: Keypair
) -> None:
    fake, url = gateway
    async with NodeClient(url, miner, gateway_hotkey=miner.ss58_address) as client:
        with pytest.raises(GatewayRefused, match=f"wrong_gateway.*is {fake.key.ss58_address}"):
            await client.demand()
    # Nothing was signed for it.
    assert fake.calls == 0
    fake.answers = [web.Response(status=204)]
    async with NodeClient(url, miner, gateway_hotkey=fake.key.ss58_address) as client:
        assert await client.lease_generation(REQUEST) is None


@pytest.mark.parametrize("configured", [False, True])
async def test_a_gateway_of_another_version_is_refused(
    gateway: tuple[FakeGateway, str], miner: Keypair, configured: bool
) -> None:
    fake, url = gateway
    fake.wire_version += 1
    hotkey = fake.key.ss58_address if configured else None
    async with NodeClient(url, miner, gateway_hotkey=hotkey) as client:
        with pytest.raises(GatewayRefused, match="wire_version: the gateway speaks"):
            await client.demand()
    assert fake.calls == 0


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("7", 7.0), ("3600", 60.0), ("0", 0.0), ("soon", None), ("-5", None), ("1.5", None)],
)
async def test_the_gateways_patience_is_heard(
    gateway: tuple[FakeGateway, str], miner: Keypair, header: str, seconds: float | None
) -> None:
    fake, url = gateway
    fake.answers = [web.Response(status=429, headers={"Retry-After": header}) for _ in range(3)]
    async with NodeClient(url, miner) as client:
        with pytest.raises(GatewayUnavailable) as away:
            await client.demand()
    assert away.value.retry_after == seconds
    assert patience(away.value) == (True if seconds is None else seconds)
    assert patience(ValueError()) is False
