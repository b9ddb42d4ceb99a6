"""A miner and a validator that fake the model and nothing else.

They sign, lease, heartbeat and submit exactly as real nodes do. Instead of drawing, the miner
answers every sample with the same legal ids; instead of a forward pass, the validator takes its
verdicts from a function.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bittensor_core import Keypair
from live_gateway import LiveGateway

from protocol.client import GatewayRefused, NodeClient
from protocol.keys import load_or_create_hotkey
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
from scoring.profile import BINS
from scoring.published import chosen
from scoring.sample_rule import RULE

STACK = Stack(
    engine="transformers", version="0", dtype="float32", head_dtype="float32", device="cpu"
)
# How long a request for work waits at the gateway; a node that is stopped ends so late.
WAIT_SECONDS = 0.5
# What makes a verdict one that voids the sample at its first token, with the mark to show for it.
VOID: dict[str, object] = {
    "outcome": "void",
    "reason": "faked",
    "mismatches": 1,
    "largest_margin_micro": 5_000_000,
    "position": 0,
    "marks": [(0, 0, BINS - 1)],
}

Judge = Callable[[AuditLease], list[SampleVerdict]]


def all_verified(lease: AuditLease) -> list[SampleVerdict]:
    """Verify every sample of a result."""
    return [
        SampleVerdict(outcome="verified", tokens=len(ids), mismatches=0, largest_margin_micro=0)
        for ids in lease.result.samples
    ]


def voided(verdict: SampleVerdict) -> SampleVerdict:
    """Return the verdict with the sample void."""
    return verdict.model_copy(update=VOID)


@dataclass
class FakeNodes:
    """What the two nodes did, and the switch that ends them."""

    miner: Keypair
    validator: Keypair
    loaded: LoadedModel
    answer: Sequence[int]
    judge: Judge
    works: list[Work] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)

    def announcement(self, role: Role) -> Announcement:
        return Announcement(
            role=role, stack=STACK, architectures=["Qwen3ForCausalLM"], loaded=self.loaded
        )

    def result(self, lease: Lease) -> Result:
        """Answer every sample with the same ids, signed."""
        samples = [list(self.answer) for _ in lease.work.samples]
        return signed_result(self.miner, lease, STACK, samples)

    def verdicts(self, lease: AuditLease) -> Verdicts:
        """Judge a result, signed."""
        profile = chosen(lease.work.model, lease.result.stack, STACK).digest
        return signed_verdicts(self.validator, lease, RULE, profile, STACK, self.judge(lease))

    async def mine(self, origin: str) -> None:
        """Generate until stopped."""
        async with NodeClient(origin, self.miner) as client:
            await client.announce(self.announcement("miner"))
            request = LeaseRequest(role="miner", loaded=self.loaded, wait_seconds=WAIT_SECONDS)
            while not self.stop.is_set():
                lease = await client.lease_generation(request)
                if lease is None:
                    continue
                self.works.append(lease.work)
                await client.heartbeat(lease.lease_id, 1)
                result = self.result(lease)
                await unless_over(client.submit_result(lease.lease_id, result))

    async def validate(self, origin: str) -> None:
        """Judge until stopped."""
        async with NodeClient(origin, self.validator) as client:
            await client.announce(self.announcement("validator"))
            request = LeaseRequest(role="validator", loaded=self.loaded, wait_seconds=WAIT_SECONDS)
            while not self.stop.is_set():
                lease = await client.lease_audit(request)
                if lease is None:
                    continue
                await client.heartbeat(lease.lease_id, 1)
                await unless_over(client.submit_verdicts(lease.lease_id, self.verdicts(lease)))


async def unless_over(post: Awaitable[object]) -> None:
    """Post on a lease that may be over meanwhile, which a real node takes as it is too."""
    try:
        await post
    except GatewayRefused as error:
        if error.code != "lease_over":
            raise


@contextmanager
def fake_nodes(
    gateway: LiveGateway,
    folder: Path,
    loaded: LoadedModel,
    answer: Sequence[int],
    judge: Judge = all_verified,
) -> Iterator[FakeNodes]:
    """Run a miner and a validator against the gateway, in a thread of their own."""
    nodes = FakeNodes(
        load_or_create_hotkey(folder / "miner"),
        load_or_create_hotkey(folder / "validator"),
        loaded,
        answer,
        judge,
    )
    gateway.register(nodes.miner.ss58_address)
    gateway.register(nodes.validator.ss58_address, validator_permit=True)
    failures: list[BaseException] = []

    async def work() -> None:
        await asyncio.gather(nodes.mine(gateway.origin), nodes.validate(gateway.origin))

    def main() -> None:
        try:
            asyncio.run(work())
        except BaseException as error:  # noqa: BLE001 - told to the test, which raises it
            failures.append(error)

    thread = threading.Thread(target=main, name="nodes")
    thread.start()
    try:
        yield nodes
    finally:
        nodes.stop.set()
        thread.join(60)
    assert not thread.is_alive()
    if failures:
        raise failures[0]
