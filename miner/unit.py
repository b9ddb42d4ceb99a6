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
from protocol.client import GatewayRefused, GatewayUnavailable, NodeClient
from protocol.documents import (
    digest,
    lease_statement,
    result_root,
    result_statement,
    work_keys,
)
from protocol.keys import sign_statement
from protocol.messages import Lease, Result, Stack

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
    """Generates, signs and submits one lease while a heartbeat keeps it.

    Args:
        stopping: set when the miner is told to stop.
        stop_seconds: grace that generation and submission get after that.
        clock: seconds that only grow.
    """

    def __init__(
        self,
        client: NodeClient,
        keypair: Keypair,
        engine: EngineProcess,
        lease: Lease,
        stopping: asyncio.Event,
        stop_seconds: float,
        clock: Callable[[], float],
    ) -> None:
        self._client = client
        self._keypair = keypair
        self._engine = engine
        self._lease = lease
        self._stopping = stopping
        self._stop_seconds = stop_seconds
        self._clock = clock
        self._tokens = 0
        self._lost = False
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
        async with _beside(self._keep_alive(), self._stop_in_time()):
            try:
                samples = await self._generate()
            except GenerationCancelled:
                return await self._give_up()
            except EngineError:
                await self._release()
                raise
            return await self._submit(self._signed(samples))

    async def _generate(self) -> list[list[int]]:
        started = self._clock()
        samples = await self._engine.generate(self._lease.work, self._note_tokens)
        self._tokens = sum(map(len, samples))
        seconds = self._clock() - started
        log.info(
            "generated",
            unit=self._lease.work.unit_id,
            tokens=self._tokens,
            seconds=round(seconds, 1),
            tokens_per_second=round(self._tokens / max(seconds, 1e-3)),
        )
        return samples

    def _note_tokens(self, tokens: int) -> None:
        self._tokens = tokens

    def _signed(self, samples: list[list[int]]) -> Result:
        return signed_result(self._keypair, self._lease, self._engine.stack, samples)

    async def _submit(self, result: Result) -> Outcome:
        """Offer the same bytes until the gateway has answered for good."""
        unit, give_up_at = result.unit_id, self._clock() + OFFER_SECONDS
        while True:
            try:
                receipt = await self._client.submit_result(self._lease.lease_id, result)
            except GatewayRefused as error:
                log.warning("result refused", unit=unit, code=error.code, reason=error.message)
                return Outcome.DROPPED
            except GatewayUnavailable as error:
                if self._cut_off or self._clock() > give_up_at:
                    log.warning("result given up", unit=unit, reason=str(error))
                    return Outcome.DROPPED
                log.warning("gateway away, result kept", unit=unit, reason=str(error))
                await asyncio.sleep(OFFER_PAUSE_SECONDS)
            else:
                log.info("submitted", unit=unit, tokens=self._tokens, detail=receipt.detail)
                return Outcome.SUBMITTED

    async def _keep_alive(self) -> None:
        """Renew the lease until it is over; then make the engine stop."""
        while not self._lost:
            await asyncio.sleep(self._lease.heartbeat_seconds)
            try:
                answer = await self._client.heartbeat(self._lease.lease_id, self._tokens)
            except GatewayUnavailable as error:
                log.warning("heartbeat unanswered", reason=str(error))
            except GatewayRefused as error:
                log.warning("lease over", unit=self._lease.work.unit_id, reason=error.message)
                self._lost = True
            else:
                self._lost = answer.stop
        await self._engine.cancel()

    async def _stop_in_time(self) -> None:
        """Once the miner is told to stop, let a short unit finish, and cut a long one off."""
        await self._stopping.wait()
        log.info("stopping", unit=self._lease.work.unit_id, grace_seconds=self._stop_seconds)
        await asyncio.sleep(self._stop_seconds)
        self._cut_off = True
        await self._engine.cancel()

    async def _give_up(self) -> Outcome:
        if self._lost:
            log.info("unit dropped: its lease is over", unit=self._lease.work.unit_id)
            return Outcome.DROPPED
        await self._release()
        return Outcome.RELEASED

    async def _release(self) -> None:
        try:
            await self._client.release(self._lease.lease_id)
        except (GatewayRefused, GatewayUnavailable) as error:
            # The lease then runs out by itself.
            log.warning("release failed", unit=self._lease.work.unit_id, reason=str(error))
        else:
            log.info("lease released", unit=self._lease.work.unit_id)


def signed_result(keypair: Keypair, lease: Lease, stack: Stack, samples: list[list[int]]) -> Result:
    """Return the result of a unit with its root over all samples and the miner's signature."""
    work = lease.work
    terms = lease_statement(
        lease.lease_id, lease.attempt, keypair.ss58_address, lease.issued_at, work
    )
    lease_digest = digest(terms).hex()
    root = result_root(work_keys(work), samples)
    statement = result_statement(work.unit_id, lease.attempt, lease_digest, stack, root)
    return Result(
        unit_id=work.unit_id,
        attempt=lease.attempt,
        lease_digest=lease_digest,
        stack=stack,
        samples=samples,
        root=root,
        signature=sign_statement(keypair, statement),
    )


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
