"""A gateway for tests of the miner. Fake: it has a list of units in place of orders, and no store.

Real: the wire messages, btauth on every request, the signatures of its leases.
"""

import asyncio
import time
from collections.abc import Callable
from uuid import UUID

from aiohttp import web
from bittensor_core import Keypair

from protocol.documents import lease_statement
from protocol.http_auth import InMemoryNonceStore, verify_request
from protocol.keys import sign_statement
from protocol.messages import (
    Announcement,
    Demand,
    DemandBoard,
    GatewayIdentity,
    Heartbeat,
    HeartbeatAnswer,
    Lease,
    LeaseRequest,
    Message,
    Receipt,
    Result,
    Work,
)

LEASE_SECONDS = 60.0


class FakeGateway:
    """Leases ``units`` in order; a released unit comes back to their front."""

    def __init__(self, key: Keypair, heartbeat_seconds: float = 0.2) -> None:
        self.key = key
        self.units: list[Work] = []
        self.leased: dict[str, Work] = {}
        self.announcements: list[Announcement] = []
        self.heartbeats: list[int] = []
        self.results: list[Result] = []
        self.released: list[str] = []
        self.refuse: Callable[[str], web.Response | None] = lambda path: None
        self.stopped: set[str] = set()
        self.changed = asyncio.Condition()
        self._heartbeat_seconds = heartbeat_seconds
        self._nonces = InMemoryNonceStore()

    def app(self) -> web.Application:
        app = web.Application(client_max_size=64 * 2**20)
        app.router.add_route("*", "/nodes/v1/{path:.*}", self._handle)
        return app

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until ``holds``; it is asked after every request."""
        async with self.changed:
            await asyncio.wait_for(self.changed.wait_for(holds), 300)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        path = request.match_info["path"]
        if path == "gateway":
            identity = GatewayIdentity(hotkey=self.key.ss58_address, time=time.time())
            return self._json(identity)
        refusal = self.refuse(path)
        if refusal is None:
            caller = verify_request(
                request.headers,
                body,
                method=request.method,
                path=request.path_qs,
                receiver=self.key.ss58_address,
                nonces=self._nonces,
            )
            refusal = self._answer(path, body, caller)
        async with self.changed:
            self.changed.notify_all()
        return refusal

    def _answer(self, path: str, body: bytes, caller: str) -> web.Response:
        match path.split("/"):
            case ["announce"]:
                self.announcements.append(Announcement.model_validate_json(body))
            case ["demand"]:
                return self._json(self._board())
            case ["leases"]:
                return self._lease(LeaseRequest.model_validate_json(body), caller)
            case ["leases", lease_id, "heartbeat"]:
                self.heartbeats.append(Heartbeat.model_validate_json(body).tokens)
                stop = lease_id in self.stopped
                return self._json(HeartbeatAnswer(expires_at=time.time() + 60, stop=stop))
            case ["leases", lease_id, "result"]:
                self.results.append(Result.model_validate_json(body))
                return self._json(Receipt(lease_id=lease_id, accepted=True, detail="taken"))
            case ["leases", lease_id, "release"]:
                self.released.append(lease_id)
                self.units.insert(0, self.leased[lease_id])
            case _:
                return web.Response(status=404)
        return web.Response(status=204)

    def _board(self) -> DemandBoard:
        first = self.units[:1]
        return DemandBoard(
            demands=[
                Demand(
                    model=work.model,
                    revision=work.revision,
                    architecture="Qwen3ForCausalLM",
                    waiting_samples=len(work.samples),
                    waiting_audits=0,
                    deadline=time.time() + 3_600,
                )
                for work in first
            ]
        )

    def _lease(self, request: LeaseRequest, miner: str) -> web.Response:
        if not self.units:
            return web.Response(status=204)
        work = self.units.pop(0)
        assert (work.model, work.revision) == (request.loaded.model, request.loaded.revision)
        lease_id = str(UUID(int=len(self.leased) + 1))
        self.leased[lease_id] = work
        issued = int(time.time())
        statement = lease_statement(lease_id, 1, miner, issued, work)
        return self._json(
            Lease(
                lease_id=lease_id,
                attempt=1,
                expires_at=issued + LEASE_SECONDS,
                ends_at=issued + 60 * LEASE_SECONDS,
                heartbeat_seconds=self._heartbeat_seconds,
                issued_at=issued,
                work=work,
                signature=sign_statement(self.key, statement),
            )
        )

    @staticmethod
    def _json(message: Message) -> web.Response:
        return web.Response(text=message.model_dump_json(), content_type="application/json")
