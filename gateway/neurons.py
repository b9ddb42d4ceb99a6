"""Who is registered on the chain, as the gateway knows it at the moment."""

import asyncio
from collections.abc import Callable

import structlog

from protocol.chain.base import Chain, ChainError, Neuron, Snapshot
from protocol.messages import Role

log = structlog.get_logger("gateway.neurons")

# A snapshot is read again after this long; sooner, but not at every request, for an unknown hotkey.
REFRESH_SECONDS = 12.0
UNKNOWN_REFRESH_SECONDS = 1.0
# A chain that cannot be read is worked around this long with the last snapshot.
STALE_SECONDS = 900.0


class Neurons:
    """The registered hotkeys, cached from the chain.

    Args:
        chain: read through ``snapshot`` alone.
        clock: seconds since the epoch.
    """

    def __init__(self, chain: Chain, clock: Callable[[], float]) -> None:
        self._chain = chain
        self._clock = clock
        self._snapshot: Snapshot | None = None
        self._read_at = 0.0
        self._tried_at = 0.0
        self._lock = asyncio.Lock()

    async def find(self, hotkey: str) -> Neuron | None:
        """Return the neuron of ``hotkey``, or None if it is not registered.

        Raises:
            ChainError: the chain cannot be read and what is known of it is too old.
        """
        # Whoever is known waits for no reading of the chain that a stranger caused.
        snapshot = self._snapshot
        if snapshot is None or self._is_older_than(REFRESH_SECONDS):
            snapshot = await self._at_most(REFRESH_SECONDS)
        neuron = snapshot.neurons.get(hotkey)
        if neuron is None:
            neuron = (await self._at_most(UNKNOWN_REFRESH_SECONDS)).neurons.get(hotkey)
        return neuron

    def forget(self) -> None:
        """Read the chain again at the next request, however new the snapshot is."""
        self._tried_at = 0.0

    async def _at_most(self, age: float) -> Snapshot:
        async with self._lock:
            if self._snapshot is None or self._is_older_than(age):
                await self._refresh()
            assert self._snapshot is not None
            return self._snapshot

    def _is_older_than(self, seconds: float) -> bool:
        return self._clock() - self._tried_at > seconds

    async def _refresh(self) -> None:
        self._tried_at = self._clock()
        try:
            self._snapshot = await self._chain.snapshot()
        except ChainError as error:
            if self._snapshot is None or self._clock() - self._read_at > STALE_SECONDS:
                raise
            log.warning("chain unreadable", error=str(error))
            return
        self._read_at = self._tried_at


def may_serve(neuron: Neuron, role: Role) -> bool:
    """Say whether a registered hotkey may take up ``role``: validators need a permit."""
    return role == "miner" or neuron.validator_permit
