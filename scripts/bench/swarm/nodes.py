"""Miners and validators that fake the model and nothing else.

Their requests, signatures, leases and heartbeats are those of real nodes, sent by the real client.
Instead of generating, a miner waits as long as a real one might and answers with random legal ids;
instead of computing, a validator waits and finds every sample verified.
"""

import asyncio
import random
import time
from collections.abc import Awaitable
from dataclasses import dataclass, field

from bittensor_core import Keypair

from protocol.client import GatewayRefused, NodeClient
from protocol.messages import (
    Announcement,
    AuditLease,
    Lease,
    LeaseRequest,
    LoadedModel,
    Result,
    Role,
    SampleVerdict,
    Stack,
    Verdicts,
    Work,
)
from protocol.results import signed_result
from protocol.verdicts import signed_verdicts
from scoring.published import chosen
from scoring.sample_rule import RULE

STACK = Stack(
    engine="transformers", version="0", dtype="float32", head_dtype="float32", device="cpu"
)
ANNOUNCE_SECONDS = 60.0
# Between two requests of a node that found no work.
PAUSE_SECONDS = 1.0
WAIT_SECONDS = 20.0


@dataclass
class Measured:
    """What all nodes saw: seconds of each request by its kind, and what was handed in.

    ``waited`` are leases that a node waited for at the gateway: from the request to the answer, the
    time without work included.
    """

    seconds: dict[str, list[float]] = field(default_factory=dict)
    waited: int = 0
    over: int = 0
    tokens: int = 0

    def note(self, kind: str, started: float) -> None:
        """Note how long a request took."""
        self.seconds.setdefault(kind, []).append(time.monotonic() - started)


class SwarmNode:
    """One node, from its announcement until it is cancelled.

    Args:
        unit_seconds: how long it pretends to work at a unit, on average.
    """

    def __init__(
        self,
        origin: str,
        keypair: Keypair,
        role: Role,
        loaded: LoadedModel,
        unit_seconds: float,
        measured: Measured,
        chance: random.Random,
    ) -> None:
        self._client = NodeClient(origin, keypair)
        self._keypair = keypair
        self._role: Role = role
        self._loaded = loaded
        self._unit_seconds = unit_seconds
        self._measured = measured
        self._chance = chance

    async def run(self) -> None:
        """Announce, then lease and answer again and again."""
        async with self._client:
            # Two hundred nodes do not start in one moment.
            await asyncio.sleep(self._chance.uniform(0, self._unit_seconds))
            announcing = asyncio.create_task(self._announce())
            try:
                while True:
                    await self._turn()
            finally:
                announcing.cancel()

    async def _announce(self) -> None:
        announcement = Announcement(
            role=self._role,
            stack=STACK,
            architectures=["Qwen3ForCausalLM"],
            loaded=self._loaded,
        )
        while True:
            await self._timed("announce", self._client.announce(announcement))
            await asyncio.sleep(ANNOUNCE_SECONDS)

    async def _turn(self) -> None:
        lease = await self._leased()
        if lease is None:
            await asyncio.sleep(PAUSE_SECONDS)
            return
        await self._work(lease)
        try:
            await self._answer(lease)
        except GatewayRefused as error:
            if error.code != "lease_over":
                raise
            self._measured.over += 1

    async def _leased(self) -> Lease | AuditLease | None:
        """Ask without waiting, which is what is measured; where there is nothing, wait."""
        for wait in (0.0, WAIT_SECONDS):
            request = LeaseRequest(role=self._role, loaded=self._loaded, wait_seconds=wait)
            miner = self._role == "miner"
            started = time.monotonic()
            try:
                lease = await (
                    self._client.lease_generation(request)
                    if miner
                    else self._client.lease_audit(request)
                )
            except GatewayRefused as error:
                # The first announcement may be on its way.
                if error.code != "not_announced":
                    raise
                return None
            if lease is not None and not wait:
                self._measured.note("lease to generate" if miner else "lease to audit", started)
            if lease is not None:
                self._measured.waited += wait > 0
                return lease
            if not wait:
                self._measured.note("lease, no work", started)
        return None

    async def _work(self, lease: Lease | AuditLease) -> None:
        left = self._unit_seconds * self._chance.uniform(0.5, 1.5)
        while left > 0:
            pause = min(left, lease.heartbeat_seconds)
            await asyncio.sleep(pause)
            left -= pause
            if left > 0:
                await self._timed("heartbeat", self._client.heartbeat(lease.lease_id, 1))

    async def _answer(self, lease: Lease | AuditLease) -> None:
        if isinstance(lease, AuditLease):
            verdicts = self._verdicts(lease)
            await self._timed("verdicts", self._client.submit_verdicts(lease.lease_id, verdicts))
            return
        result = self._result(lease)
        await self._timed("result", self._client.submit_result(lease.lease_id, result))
        self._measured.tokens += sum(map(len, result.samples))

    async def _timed(self, kind: str, call: Awaitable[object]) -> None:
        started = time.monotonic()
        await call
        self._measured.note(kind, started)

    def _result(self, lease: Lease) -> Result:
        samples = [self._ids(lease.work) for _ in lease.work.samples]
        return signed_result(self._keypair, lease, STACK, samples)

    def _ids(self, work: Work) -> list[int]:
        """Return random ids that end by themselves."""
        length = self._chance.randrange(work.sampling.max_tokens)
        ends = set(work.end_ids)
        ids = [self._chance.randrange(work.vocabulary_size) for _ in range(length)]
        return [token for token in ids if token not in ends] + work.end_ids[:1]

    def _verdicts(self, lease: AuditLease) -> Verdicts:
        samples = [
            SampleVerdict(outcome="verified", tokens=len(ids), mismatches=0, largest_margin_micro=0)
            for ids in lease.result.samples
        ]
        profile = chosen(lease.work.model, lease.result.stack, STACK).digest
        return signed_verdicts(self._keypair, lease, RULE, profile, STACK, samples)
