"""A lease that heartbeats keep while its unit waits, is generated, and is submitted."""

import asyncio

import structlog

from protocol.client import GatewayRefused, GatewayUnavailable, NodeClient
from protocol.messages import Lease

log = structlog.get_logger()


class HeldLease:
    """Renews a lease from ``start`` to ``close``.

    Attributes:
        lease: what the gateway signed.
        tokens: generated so far, told with every heartbeat.
        lost: set once the gateway says that the lease is over.
    """

    def __init__(self, client: NodeClient, lease: Lease) -> None:
        self.lease = lease
        self.tokens = 0
        self.lost = asyncio.Event()
        self._client = client
        self._beating: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Send heartbeats from now on."""
        self._beating = asyncio.create_task(self._keep())

    async def close(self) -> None:
        """Send no more."""
        if self._beating is not None:
            self._beating.cancel()
            await asyncio.gather(self._beating, return_exceptions=True)

    async def beat(self) -> None:
        """Send one heartbeat, and note where the lease is over."""
        try:
            answer = await self._client.heartbeat(self.lease.lease_id, self.tokens)
        except GatewayUnavailable as error:
            log.warning("heartbeat unanswered", reason=str(error))
        except GatewayRefused as error:
            log.warning("lease over", unit=self.lease.work.unit_id, reason=error.message)
            self.lost.set()
        else:
            if answer.stop:
                self.lost.set()

    async def release(self) -> None:
        """Give the lease back; where that fails it runs out by itself."""
        await self.close()
        unit = self.lease.work.unit_id
        try:
            await self._client.release(self.lease.lease_id)
        except (GatewayRefused, GatewayUnavailable) as error:
            log.warning("release failed", unit=unit, reason=str(error))
        else:
            log.info("lease released", unit=unit)

    async def _keep(self) -> None:
        while not self.lost.is_set():
            await asyncio.sleep(self.lease.heartbeat_seconds)
            await self.beat()
