"""One lease from its first token to its receipt."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from enum import Enum
from typing import Any

import structlog
from bittensor_core import Keypair

from miner.engines.base import EngineError, GenerationCancelled
from miner.engines.process import EngineProcess
from miner.held import HeldLease
from miner.kept import KeptLeases
from protocol.client import GatewayRefused, GatewayUnavailable, NodeClient
from protocol.messages import Result
from protocol.results import signed_result

# How long a finished result is offered to a gateway that does not answer. A lease is long over
# then; a gateway that comes back within it may still take the result.
OFFER_SECONDS = 3_600.0
OFFER_PAUSE_SECONDS = 2.0

log = structlog.get_logger()


class Outcome(Enum):
    """How a lease ended for this miner."""

    SUBMITTED = "submitted"
    DROPPED = "dropped"
    RELEASED = "released"


class UnitRun:
    """Generates, signs and submits one lease that heartbeats keep meanwhile.

    Args:
        held: the lease, whose heartbeats have started.
        kept: where its result is written down before it is posted.
        stopping: set when the miner is told to stop.
        stop_seconds: grace that generation and submission get after that.
        clock: seconds that only grow.
    """

    def __init__(
        self,
        client: NodeClient,
        keypair: Keypair,
        engine: EngineProcess,
        held: HeldLease,
        kept: KeptLeases,
        stopping: asyncio.Event,
        stop_seconds: float,
        clock: Callable[[], float],
    ) -> None:
        self._client = client
        self._keypair = keypair
        self._engine = engine
        self._held = held
        self._lease = held.lease
        self._kept = kept
        self._stopping = stopping
        self._stop_seconds = stop_seconds
        self._clock = clock
        self._cut_off = False

    async def run(self) -> Outcome:
        """Serve the lease to its end.

        Raises:
            EngineError: the engine refused or crashed; the lease was given back.
        """
        work = self._lease.work
        longest = max(map(len, work.prompts))
        log.info(
            "lease taken",
            unit=work.unit_id,
            model=work.model,
            samples=len(work.samples),
            longest_prompt=longest,
            max_tokens=work.sampling.max_tokens,
            attempt=self._lease.attempt,
        )
        async with _beside(self._stop_when_lost(), self._stop_in_time()):
            try:
                samples = await self._generate()
            except GenerationCancelled:
                return await self._give_up()
            except EngineError:
                await self._release()
                raise
            result = signed_result(self._keypair, self._lease, self._engine.stack, samples)
            await asyncio.to_thread(self._kept.keep_result, self._lease.lease_id, result)
            return await self._submit(result)

    async def _generate(self) -> list[list[int]]:
        started = self._clock()
        samples = await self._engine.generate(self._lease.work, self._note_tokens)
        self._held.tokens = sum(map(len, samples))
        seconds = self._clock() - started
        log.info(
            "generated",
            unit=self._lease.work.unit_id,
            tokens=self._held.tokens,
            seconds=round(seconds, 1),
            tokens_per_second=round(self._held.tokens / max(seconds, 1e-3)),
        )
        return samples

    def _note_tokens(self, tokens: int) -> None:
        self._held.tokens = tokens

    async def _submit(self, result: Result) -> Outcome:
        taken = await offer(
            self._client, self._lease.lease_id, result, lambda: self._cut_off, self._clock
        )
        if taken is None:
            # Kept, and offered again after a restart.
            return Outcome.DROPPED
        await asyncio.to_thread(self._kept.end, self._lease.lease_id)
        return Outcome.SUBMITTED if taken else Outcome.DROPPED

    async def _stop_when_lost(self) -> None:
        await self._held.lost.wait()
        await self._engine.cancel()

    async def _stop_in_time(self) -> None:
        """Once the miner is told to stop, let a short unit finish, and cut a long one off."""
        await self._stopping.wait()
        log.info("stopping", unit=self._lease.work.unit_id, grace_seconds=self._stop_seconds)
        await asyncio.sleep(self._stop_seconds)
        self._cut_off = True
        await self._engine.cancel()

    async def _give_up(self) -> Outcome:
        if self._held.lost.is_set():
            log.info("unit dropped: its lease is over", unit=self._lease.work.unit_id)
            await asyncio.to_thread(self._kept.end, self._lease.lease_id)
            return Outcome.DROPPED
        await self._release()
        return Outcome.RELEASED

    async def _release(self) -> None:
        await self._held.release()
        await asyncio.to_thread(self._kept.end, self._lease.lease_id)


async def offer(
    client: NodeClient,
    lease_id: str,
    result: Result,
    is_cut_off: Callable[[], bool],
    clock: Callable[[], float],
) -> bool | None:
    """Offer the same bytes until the gateway has answered for good.

    Returns:
        whether it took the result; None where it did not answer for too long.
    """
    unit, give_up_at = result.unit_id, clock() + OFFER_SECONDS
    while True:
        try:
            receipt = await client.submit_result(lease_id, result)
        except GatewayRefused as error:
            log.warning("result refused", unit=unit, code=error.code, reason=error.message)
            return False
        except GatewayUnavailable as error:
            if is_cut_off() or clock() > give_up_at:
                log.warning("result kept for the next start", unit=unit, reason=str(error))
                return None
            log.warning("gateway away, result kept", unit=unit, reason=str(error))
            await asyncio.sleep(OFFER_PAUSE_SECONDS)
        else:
            log.info("submitted", unit=unit, detail=receipt.detail)
            return True


@asynccontextmanager
async def _beside(*coroutines: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run coroutines beside the block and end them with it; their errors are raised after it."""
    tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, Exception):
            raise outcome
