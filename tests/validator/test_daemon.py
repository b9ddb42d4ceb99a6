"""The daemon against a fake gateway, with a real model and real keys.

Faked: a queue of audit leases in place of a database; it answers what a test puts there and never
judges. Real: HTTP, btauth, signatures, the hub, the child process.
"""

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import stamina
from aiohttp import web
from aiohttp.test_utils import TestServer
from bittensor_core import Keypair

from protocol.client import NodeClient
from protocol.documents import (
    audited_statement,
    digest,
    lease_statement,
    statement_of_verdicts,
    verdict_root,
    work_keys,
)
from protocol.http_auth import InMemoryNonceStore, verify_request
from protocol.keys import load_or_create_hotkey, sign_statement, verify_statement
from protocol.messages import (
    WIRE_VERSION,
    Announcement,
    AuditLease,
    Demand,
    DemandBoard,
    Heartbeat,
    HeartbeatAnswer,
    Lease,
    LeaseRecord,
    LeaseRequest,
    Receipt,
    SampleVerdict,
    Stack,
    Verdicts,
    Work,
)
from protocol.results import signed_result
from scripts.hub.server import HubServer
from scripts.hub.store import publish
from validator import worker
from validator.claims import SIGNATURE
from validator.daemon import Validator
from validator.lease_audit import LeaseAudit
from validator.model_process import ModelProcess
from validator.settings import ValidatorSettings

MakeWork = Callable[..., Work]
Generate = Callable[[Work], list[list[int]]]
NAME = "reliquary/random"
WAIT_SECONDS = 240.0
STACK = Stack(engine="vllm", version="1", dtype="float32", head_dtype="float32", device="cpu")


class FakeGateway:
    """Speaks the validators' routes over lists."""

    def __init__(self, key: Keypair, revision: str) -> None:
        self.key = key
        self.revision = revision
        self.queue: list[AuditLease] = []
        self.announced: list[Announcement] = []
        self.beats: list[int] = []
        self.verdicts: dict[str, Verdicts] = {}
        self.released: list[str] = []
        self.stopped: set[str] = set()
        self.busy = 0
        self.callers: set[str] = set()
        self.changed = asyncio.Condition()
        self._nonces = InMemoryNonceStore()

    async def handle(self, request: web.Request) -> web.Response:
        if request.path == "/nodes/v1/gateway":
            identity = {"hotkey": self.key.ss58_address, "wire_version": WIRE_VERSION, "time": 0.0}
            return web.json_response(identity)
        body = await request.read()
        caller = verify_request(
            request.headers,
            body,
            method=request.method,
            path=request.path_qs,
            receiver=self.key.ss58_address,
            nonces=self._nonces,
        )
        self.callers.add(caller)
        _, _, _, name, *rest = request.path.split("/")
        lease_id, action = rest or ("", name)
        answer = getattr(self, f"_{action}")(lease_id, body)
        async with self.changed:
            self.changed.notify_all()
        return web.Response(status=204) if answer is None else web.Response(text=answer)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until a request has made ``condition`` true."""
        async with asyncio.timeout(WAIT_SECONDS), self.changed:
            await self.changed.wait_for(condition)

    def _announce(self, _: str, body: bytes) -> None:
        self.announced.append(Announcement.model_validate_json(body))

    def _demand(self, *_: object) -> str:
        demand = Demand(
            model=NAME,
            revision=self.revision,
            architecture="Qwen3ForCausalLM",
            waiting_samples=0,
            waiting_audits=len(self.queue),
            deadline=0.0,
        )
        return DemandBoard(demands=[demand]).model_dump_json()

    def _leases(self, _: str, body: bytes) -> str | None:
        request = LeaseRequest.model_validate_json(body)
        assert (request.role, request.loaded.revision) == ("validator", self.revision)
        return self.queue.pop(0).model_dump_json() if self.queue else None

    def _heartbeat(self, lease_id: str, body: bytes) -> str:
        tokens = Heartbeat.model_validate_json(body).tokens
        self.beats.append(tokens)
        # Stopped in the middle: it has told of progress.
        stop = lease_id in self.stopped and tokens > 0
        return HeartbeatAnswer(expires_at=0.0, stop=stop).model_dump_json()

    def _verdicts(self, lease_id: str, body: bytes) -> str:
        if self.busy:
            self.busy -= 1
            raise web.HTTPServiceUnavailable
        self.verdicts[lease_id] = Verdicts.model_validate_json(body)
        return Receipt(lease_id=lease_id, accepted=True, detail="").model_dump_json()

    def _release(self, lease_id: str, _: bytes) -> None:
        self.released.append(lease_id)


def lease(
    number: int, work: Work, samples: list[list[int]], miner: Keypair, gateway: Keypair
) -> AuditLease:
    """Return an audit lease of what ``miner`` really signed for a lease that ``gateway`` signed."""
    given = f"00000000-0000-7000-9000-{number:012}"
    signature = sign_statement(gateway, lease_statement(given, 1, miner.ss58_address, 1, work))
    generation = Lease(
        lease_id=given,
        attempt=1,
        expires_at=0.0,
        ends_at=0.0,
        heartbeat_seconds=0.05,
        issued_at=1,
        work=work,
        signature=signature,
    )
    return AuditLease(
        lease_id=f"00000000-0000-7000-8000-{number:012}",
        attempt=1,
        expires_at=0.0,
        ends_at=0.0,
        heartbeat_seconds=0.05,
        work=work,
        miner=miner.ss58_address,
        record=LeaseRecord(
            lease_id=given, issued_at=1, gateway=gateway.ss58_address, signature=signature
        ),
        result=signed_result(miner, generation, STACK, samples),
    )


@pytest.fixture(scope="module")
def hub(random_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """Serve the random model; yield its commit and a folder for downloads."""
    folder = tmp_path_factory.mktemp("hub")
    with HubServer(folder / "hub") as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_ENDPOINT", server.url)
        yield publish(folder / "hub", NAME, random_model), folder / "models"


@pytest.fixture
def miner(tmp_path: Path) -> Keypair:
    return load_or_create_hotkey(tmp_path / "miner.json")


@pytest.fixture
async def gateway(hub: tuple[str, Path], tmp_path: Path) -> AsyncIterator[tuple[FakeGateway, str]]:
    fake = FakeGateway(load_or_create_hotkey(tmp_path / "gateway.json"), hub[0])
    app = web.Application(client_max_size=2**28)
    app.router.add_route("*", "/{path:.*}", fake.handle)
    stamina.set_testing(True, attempts=3)
    async with TestServer(app) as server:
        yield fake, str(server.make_url("")).rstrip("/")
    stamina.set_testing(False)


@pytest.fixture
def settings(gateway: tuple[FakeGateway, str], hub: Any, tmp_path: Path) -> ValidatorSettings:
    return ValidatorSettings(
        gateway=gateway[1],
        hotkey=tmp_path / "validator.json",
        dtype="float32",
        threads=1,
        pack_tokens=64,
        idle_seconds=0.05,
        models=hub[1],
    )


async def running(
    settings: ValidatorSettings, steps: Callable[[Keypair], Awaitable[None]]
) -> asyncio.Task:
    """Run a validator while ``steps`` runs, then cancel it as a signal would; return its task."""
    keypair = load_or_create_hotkey(settings.hotkey)
    async with NodeClient(settings.gateway, keypair) as client:
        task = asyncio.create_task(Validator(settings, keypair, client, time.monotonic).run())
        watched = asyncio.ensure_future(steps(keypair))
        await asyncio.wait([task, watched], return_when=asyncio.FIRST_COMPLETED)
        task.cancel()
        await asyncio.wait([task])
        watched.cancel() if not watched.done() else await watched
    return task


async def test_units_are_audited_signed_and_submitted(
    gateway: tuple[FakeGateway, str],
    settings: ValidatorSettings,
    hub: tuple[str, Path],
    miner: Keypair,
    make_work: MakeWork,
    generate: Generate,
):
    fake, _ = gateway
    work = make_work().model_copy(update={"revision": hub[0], "model": NAME, "end_ids": [281]})
    samples = generate(work)
    cheated = generate(work.model_copy(update={"seed": 1234}))
    honest, cheat = (
        lease(1, work, samples, miner, fake.key),
        lease(2, work, cheated, miner, fake.key),
    )
    swapped = honest.result.model_copy(update={"samples": [samples[1], samples[0], *samples[2:]]})
    unsigned = lease(3, work, samples, miner, fake.key).model_copy(update={"result": swapped})
    # The same ids, signed for a lease by other terms.
    other = lease(8, work.model_copy(update={"end_ids": [282]}), samples, miner, fake.key).result
    late = lease(4, work, samples, miner, fake.key).model_copy(update={"result": other})
    long = work.model_copy(update={"samples": work.samples * 400})
    endless = lease(5, long, samples * 400, miner, fake.key)
    fake.queue = [honest, cheat, unsigned, late, endless, lease(6, work, samples, miner, fake.key)]
    fake.stopped = {endless.lease_id}
    fake.busy = 1

    async def steps(keypair: Keypair) -> None:
        await fake.until(lambda: len(fake.verdicts) == 5)
        assert fake.callers == {keypair.ss58_address}
        for one in (honest, cheat, unsigned, late):
            verdicts = fake.verdicts[one.lease_id]
            assert verdicts.unit_id == one.work.unit_id
            assert verdicts.attempt == one.attempt
            assert verdicts.lease_digest == digest(audited_statement(one)).hex()
            assert verdicts.result_root == one.result.root
            assert verdicts.root == verdict_root(work_keys(work), verdicts.samples)
            statement = statement_of_verdicts(verdicts)
            assert verify_statement(keypair.ss58_address, statement, verdicts.signature)

    task = await running(settings, steps)
    assert task.cancelled()
    reasons = {
        one.lease_id: [(s.outcome, s.reason) for s in fake.verdicts[one.lease_id].samples]
        for one in (honest, cheat, unsigned, late)
    }
    assert reasons[honest.lease_id] == [("verified", None)] * 6
    assert {outcome for outcome, _ in reasons[cheat.lease_id]} == {"void"}
    assert reasons[unsigned.lease_id] == [("inconclusive", SIGNATURE)] * 6
    assert reasons[late.lease_id] == [("inconclusive", SIGNATURE)] * 6
    # The gateway's stop ended the fifth audit; the next one was served.
    assert endless.lease_id not in fake.verdicts
    assert fake.released == []
    assert max(fake.beats) > 0
    assert fake.announced[0].loaded is None
    assert fake.announced[-1].loaded is not None
    assert fake.announced[-1].loaded.revision == hub[0]
    assert fake.announced[-1].stack.dtype == "float32"


async def test_a_signal_gives_the_lease_back(
    gateway: tuple[FakeGateway, str],
    settings: ValidatorSettings,
    hub: tuple[str, Path],
    miner: Keypair,
    make_work: MakeWork,
    generate: Generate,
):
    fake, _ = gateway
    work = make_work().model_copy(update={"revision": hub[0], "model": NAME, "end_ids": [281]})
    samples = generate(work) * 400
    work = work.model_copy(update={"samples": work.samples * 400})
    held = lease(7, work, samples, miner, fake.key)
    fake.queue = [held]
    environment = {
        **os.environ,
        **{
            f"RELIQUARY_VALIDATOR_{name.upper()}": str(value)
            for name, value in settings.model_dump(exclude_none=True).items()
        },
    }
    code = (
        "from validator.daemon import run_validator\n"
        "from validator.settings import ValidatorSettings\n"
        "if __name__ == '__main__':\n"
        "    run_validator(ValidatorSettings())\n"
    )
    script = settings.hotkey.with_name("main.py")
    script.write_text(code)
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(script), env={**environment, "PYTHONPATH": str(Path.cwd())}
    )
    try:
        await fake.until(lambda: max(fake.beats, default=0) > 0)
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(60):
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert fake.released == [held.lease_id]
    assert fake.verdicts == {}


def test_a_child_of_another_build_judges_nobody(
    miner: Keypair, tmp_path: Path, make_work: MakeWork, monkeypatch: pytest.MonkeyPatch
):
    work = make_work(prompts=1, per_prompt=1)
    samples = [[3] * work.sampling.max_tokens]
    held = lease(1, work, samples, miner, load_or_create_hotkey(tmp_path / "gateway.json"))
    key = load_or_create_hotkey(tmp_path / "validator.json")
    process = ModelProcess(worker.Load(NAME, "a" * 40, None, "vllm", None, "cpu", 1))
    process.vocabulary, process.stack = work.vocabulary_size, STACK

    def judged(*_: object) -> Iterator[tuple[int, SampleVerdict]]:
        # The first child died, and another one was started from what is installed now.
        process.stack = STACK.model_copy(update={"version": "2"})
        yield 0, SampleVerdict(outcome="void", tokens=2, mismatches=2, largest_margin_micro=9)

    monkeypatch.setattr(process, "judged", judged)
    audit = LeaseAudit(key, NodeClient("http://x", key), process, STACK, 64, time.monotonic)
    (verdict,) = audit._verdicts(held)
    assert verdict.outcome == "inconclusive"
    assert verdict.reason is not None and "was updated meanwhile" in verdict.reason
