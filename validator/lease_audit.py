"""One audit lease from its samples to the gateway's receipt."""

import asyncio
from collections.abc import Callable, Iterator

import structlog
from bittensor_core import Keypair

from protocol.client import GatewayRefused, GatewayUnavailable, NodeClient
from protocol.messages import AuditLease, SampleVerdict, Stack, Verdicts, Work
from protocol.verdicts import signed_verdicts
from scoring.profile import Profile
from scoring.published import chosen
from scoring.sample_rule import RULE
from validator.audit import Samples, audit_by
from validator.claims import SIGNATURE, unproven
from validator.forward import ForwardFailed
from validator.model_process import ModelProcess
from validator.verdicts import failure

# How long a finished audit is offered to a gateway that does not answer.
SUBMIT_SECONDS = 600.0
RETRY_SECONDS = 5.0

Clock = Callable[[], float]

log = structlog.get_logger(__name__)


class LeaseAudit:
    """Audits leases of the model that a process holds, and signs and submits what it finds.

    Args:
        keypair: the hotkey that signs verdicts.
        client: an open client of the gateway.
        process: holds the leases' model.
        stack: what the process computes with.
        pack_tokens: tokens that the model computes at once.
        clock: seconds, never backwards.
    """

    def __init__(
        self,
        keypair: Keypair,
        client: NodeClient,
        process: ModelProcess,
        stack: Stack,
        pack_tokens: int,
        clock: Clock,
    ) -> None:
        self._keypair = keypair
        self._client = client
        self._process = process
        self._stack = stack
        self._pack_tokens = pack_tokens
        self._clock = clock

    async def run(self, lease: AuditLease) -> None:
        """Audit every sample of the lease and submit the verdicts.

        Raises:
            AuditCancelled: the lease is over, or the process was closed.
            GatewayRefused, GatewayUnavailable: the verdicts could not be handed over.
        """
        started = self._clock()
        self._process.begin()
        beating = asyncio.create_task(self._keep_lease(lease))
        try:
            samples = await asyncio.to_thread(self._verdicts, lease)
            await self._submit(lease, self._signed(lease, samples))
        finally:
            beating.cancel()
        outcomes = [sample.outcome for sample in samples]
        log.info(
            "audited",
            unit=lease.work.unit_id,
            attempt=lease.attempt,
            miner=lease.miner,
            tokens=sum(sample.tokens for sample in samples),
            mismatches=sum(sample.mismatches for sample in samples),
            seconds=round(self._clock() - started, 2),
            **{outcome: outcomes.count(outcome) for outcome in sorted(set(outcomes))},
        )

    def _verdicts(self, lease: AuditLease) -> list[SampleVerdict]:
        """Return the verdict on every sample of the lease; runs in a thread of its own."""
        work, samples = lease.work, lease.result.samples
        profile = self._profile(lease)
        if unproven(lease):
            return [failure(SIGNATURE, len(ids)) for ids in _one_each(lease)]
        return audit_by(
            work,
            samples,
            self._process.vocabulary,
            lambda part, budget: self._judged(work, part, profile, budget),
            self._pack_tokens,
        )

    def _judged(
        self, work: Work, samples: Samples, profile: Profile, budget: int
    ) -> Iterator[tuple[int, SampleVerdict]]:
        for found in self._process.judged(work, samples, profile, budget):
            if self._process.stack != self._stack:
                # A child that died was replaced by one of another build: the profile may be of the
                # first one alone.
                raise ForwardFailed("what computes here was updated meanwhile")
            yield found

    def _profile(self, lease: AuditLease) -> Profile:
        return chosen(lease.work.model, lease.result.stack, self._stack)

    def _signed(self, lease: AuditLease, samples: list[SampleVerdict]) -> Verdicts:
        profile = self._profile(lease).digest
        return signed_verdicts(self._keypair, lease, RULE, profile, self._stack, samples)

    async def _keep_lease(self, lease: AuditLease) -> None:
        """Renew the lease while it is audited; a lease that is over ends the audit."""
        while True:
            await asyncio.sleep(lease.heartbeat_seconds)
            try:
                answer = await self._client.heartbeat(lease.lease_id, self._process.tokens)
            except GatewayUnavailable:
                continue
            except GatewayRefused:
                self._process.cancel()
                return
            if answer.stop:
                self._process.cancel()
                return

    async def _submit(self, lease: AuditLease, verdicts: Verdicts) -> None:
        deadline = self._clock() + SUBMIT_SECONDS
        while True:
            try:
                receipt = await self._client.submit_verdicts(lease.lease_id, verdicts)
            except GatewayUnavailable as error:
                if self._clock() > deadline:
                    raise
                log.warning("verdicts wait for the gateway", reason=str(error))
                await asyncio.sleep(RETRY_SECONDS)
                continue
            if not receipt.accepted:
                log.warning("verdicts not taken", unit=verdicts.unit_id, reason=receipt.detail)
            return


def _one_each(lease: AuditLease) -> list[list[int]]:
    """Return the claimed ids of each sample of the work, none where the result lacks it."""
    missing = len(lease.work.samples) - len(lease.result.samples)
    return [*lease.result.samples, *[[]] * missing][: len(lease.work.samples)]
