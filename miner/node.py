"""The miner: holds a model that the gateway has work for, leases its units, generates, submits."""

import asyncio
import signal
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

import structlog
from bittensor_core import Keypair

from miner.ahead import is_near_end
from miner.declared import declared_stack
from miner.engines.base import EngineCrashed, EngineError
from miner.held import HeldLease
from miner.holder import PASSING_SECONDS, Holder
from miner.kept import KeptLeases
from miner.placement import offers
from miner.settings import MinerSettings
from miner.unit import Outcome, UnitRun, offer
from protocol.client import GatewayRefused, GatewayUnavailable, NodeClient
from protocol.keys import load_or_create_hotkey
from protocol.messages import Announcement, DemandBoard, LeaseRequest, LoadedModel
from protocol.placement import Offer, Placement

ANNOUNCE_SECONDS = 60.0
# Pause after the gateway could not be reached, and after it turned this miner away.
AWAY_SECONDS = 3.0
TURNED_AWAY_SECONDS = 15.0
# A unit that this engine refused is left to others for this long.
REFUSED_SECONDS = 60.0
# The gateway gives this miner nothing of the model commit that it holds, and may of others.
OF_THIS_COMMIT = frozenset({"miner_suspended", "leases_unanswered"})
# No wait and no further try mends these.
FATAL_CODES = frozenset({"wire_version", "wrong_gateway"})

T = TypeVar("T")

log = structlog.get_logger()


class MinerNode:
    """One miner. ``run`` works until ``stop`` is called.

    Args:
        clock: seconds that only grow.
        now: seconds since the epoch.
    """

    def __init__(
        self,
        settings: MinerSettings,
        client: NodeClient,
        keypair: Keypair,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self._client = client
        self._keypair = keypair
        self._clock = clock
        self._holder = Holder(settings, clock)
        self._stack = declared_stack(settings)
        self._stopping = asyncio.Event()
        self._announced = False
        self._last_announcement: Announcement | None = None
        self._last_refusal = ""
        self._placement = Placement(
            client.hotkey, settings.switch_seconds, settings.poll_seconds, self._offers, clock, now
        )
        # The board is looked at once more when another model may be loaded.
        self._wait_seconds = min(settings.wait_seconds, settings.switch_seconds)
        self._kept = KeptLeases(settings.leases_folder)
        self._kept.prune(now())
        self._left = self._kept.left()
        self._ahead: asyncio.Task[HeldLease | None] | None = None
        self._mean_tokens: float | None = None
        self._loading: LoadedModel | None = None

    @property
    def stopping(self) -> bool:
        """Whether ``stop`` was called."""
        return self._stopping.is_set()

    def stop(self) -> None:
        """Take no more leases; finish or release the unit at hand, then return from ``run``."""
        self._stopping.set()

    async def run(self) -> None:
        """Announce and work until stopped.

        Raises:
            GatewayRefused: the gateway speaks another version of the protocol, or is another one.
        """
        announcing = asyncio.create_task(self._announce_again())
        try:
            while not self._stopping.is_set():
                await self._patiently()
            await self._drop_ahead()
            await self._holder.close()
        finally:
            announcing.cancel()
            await self._holder.kill()
        log.info("stopped")

    async def _patiently(self) -> None:
        """Do the next thing; where the gateway is away or says no, wait and say so."""
        try:
            worked = await self._next()
            self._last_refusal = ""
            if not worked:
                rest = self._placement.rest(self._client, self._settings.wait_seconds)
                await self._interruptible(rest)
        except GatewayUnavailable as error:
            log.warning("gateway away", reason=str(error))
            await self._pause(AWAY_SECONDS)
        except GatewayRefused as error:
            if error.code in FATAL_CODES:
                raise
            await self._turned_away(error)

    async def _next(self) -> bool:
        """Serve one lease, or load what is wanted; False where there is nothing to do."""
        held = self._holder
        if not self._announced:
            await self._announce()
        if self._left:
            await self._resume()
            return True
        refused: GatewayRefused | None = None
        if held.loaded is not None and self._placement.is_due and await self._placed():
            return True
        if held.loaded is not None:
            try:
                lease = await self._fetched()
            except GatewayRefused as error:
                if error.code not in OF_THIS_COMMIT:
                    raise
                refused, lease = error, None
            if lease is not None:
                await self._serve(lease)
                return True
        if await self._placed():
            return True
        if refused is not None:
            raise refused
        return False

    async def _placed(self) -> bool:
        """Load another model where the demand board says so; return whether it is loaded."""
        wanted = await self._placement.wanted(self._client, self._intend)
        if wanted is None or wanted == self._holder.loaded:
            return False
        await self._drop_ahead()
        return await self._load(wanted)

    def _offers(self, board: DemandBoard) -> list[Offer]:
        return offers(board, self._settings.architectures, self._holder.avoided)

    async def _load(self, wanted: LoadedModel) -> bool:
        started = self._clock()
        loaded = await self._interruptible(self._holder.hold(wanted)) or False
        self._mean_tokens = self._loading = None
        self._note_held(self._clock() - started if loaded else None)
        await self._announce()
        return loaded

    def _note_held(self, seconds: float | None = None) -> None:
        self._placement.note_loaded(self._holder.loaded, seconds)

    async def _resume(self) -> None:
        """Take up one lease of an earlier run: offer its result, or generate it if it still lives.

        The draw gives the same tokens again.
        """
        lease, stack, result = self._left[0]
        if result is not None:
            log.info("offering the result of an earlier run", unit=result.unit_id)
            stopping = self._stopping.is_set
            taken = await offer(self._client, lease.lease_id, result, stopping, self._clock)
            if taken is not None:
                await asyncio.to_thread(self._kept.end, lease.lease_id)
            self._left.pop(0)
            return
        held = HeldLease(self._client, lease)
        await held.beat()
        self._left.pop(0)
        if held.lost.is_set():
            await asyncio.to_thread(self._kept.end, lease.lease_id)
            return
        held.start()
        wanted = LoadedModel(model=lease.work.model, revision=lease.work.revision)
        engine = self._holder.engine if await self._load(wanted) else None
        if engine is None or stack not in (None, engine.stack):
            # Of an engine that was updated meanwhile the gateway would take no result.
            await self._give_back(held)
        else:
            await self._serve(held)

    async def _fetched(self) -> HeldLease | None:
        """Return the lease that was fetched ahead, or ask for one."""
        ahead, self._ahead = self._ahead, None
        held = None if ahead is None else await ahead
        if held is None:
            return await self._fetch(self._wait_seconds)
        if held.lost.is_set():
            await held.close()
            await asyncio.to_thread(self._kept.end, held.lease.lease_id)
            return await self._fetch(self._wait_seconds)
        return held

    async def _fetch(self, wait_seconds: float) -> HeldLease | None:
        loaded, engine = self._holder.loaded, self._holder.engine
        if loaded is None or engine is None:
            return None
        request = LeaseRequest(
            role="miner",
            loaded=loaded,
            max_samples=self._settings.max_samples,
            wait_seconds=wait_seconds,
        )
        asking = self._client.lease_generation(request)
        # What is granted to one that waited and has gone away, the gateway takes back.
        lease = await (self._interruptible(asking) if wait_seconds else asking)
        if lease is None:
            return None
        await asyncio.to_thread(self._kept.keep, lease, engine.stack)
        held = HeldLease(self._client, lease)
        held.start()
        return held

    async def _fetch_ahead(self, current: HeldLease, done: asyncio.Event) -> HeldLease | None:
        """Fetch the next lease once the current unit is near its end, if that comes."""
        work = current.lease.work
        while not done.is_set() and not self._stopping.is_set():
            if is_near_end(
                current.tokens, len(work.samples), work.sampling.max_tokens, self._mean_tokens
            ):
                try:
                    return await self._fetch(0.0)
                except (GatewayUnavailable, GatewayRefused):
                    # The work loop meets the same answer and deals with it.
                    return None
            with suppress(TimeoutError):
                await asyncio.wait_for(done.wait(), self._settings.poll_seconds)
        return None

    async def _drop_ahead(self) -> None:
        ahead, self._ahead = self._ahead, None
        held = None if ahead is None else await ahead
        if held is not None:
            await self._give_back(held)

    async def _give_back(self, held: HeldLease) -> None:
        await held.release()
        await asyncio.to_thread(self._kept.end, held.lease.lease_id)

    async def _serve(self, held: HeldLease) -> None:
        engine, loaded = self._holder.engine, self._holder.loaded
        if engine is None or loaded is None:
            raise RuntimeError("a unit was leased without an engine")
        run = UnitRun(
            self._client,
            self._keypair,
            engine,
            held,
            self._kept,
            self._stopping,
            self._settings.stop_seconds,
            self._clock,
        )
        done, started = asyncio.Event(), self._clock()
        self._ahead = asyncio.create_task(self._fetch_ahead(held, done))
        try:
            if await run.run() is Outcome.SUBMITTED:
                self._mean_tokens = held.tokens / len(held.lease.work.samples)
                self._placement.note_work(held.tokens, self._clock() - started)
        except EngineCrashed as error:
            log.error("engine crashed", reason=str(error))
            self._holder.avoid(loaded, PASSING_SECONDS)
            done.set()
            await self._drop_ahead()
            await self._holder.kill()
            self._note_held()
        except EngineError as error:
            log.error("unit refused", unit=held.lease.work.unit_id, reason=str(error))
            self._holder.avoid(loaded, REFUSED_SECONDS)
            done.set()
            await self._drop_ahead()
            await self._holder.close()
            self._note_held()
        finally:
            done.set()
            await held.close()

    async def _turned_away(self, error: GatewayRefused) -> None:
        """Announce again where the gateway does not know this miner (any more), else wait."""
        if error.code != self._last_refusal:
            log.warning("turned away", code=error.code, reason=error.message)
        unknown = error.code == "not_announced" and self._announced
        self._last_refusal, self._announced = error.code, not unknown
        await self._pause(self._settings.poll_seconds if unknown else TURNED_AWAY_SECONDS)

    async def _interruptible(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Return what ``work`` does, or give it up and return None when told to stop."""
        task = asyncio.create_task(work)
        stopped = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait({task, stopped}, return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() else None
        finally:
            stopped.cancel()
            task.cancel()
            await asyncio.gather(task, stopped, return_exceptions=True)

    async def _intend(self, loading: LoadedModel | None) -> None:
        """Announce what is going to be loaded."""
        self._loading = loading
        await self._announce()

    async def _announce(self) -> None:
        engine, loaded = self._holder.engine, self._holder.loaded
        announcement = Announcement(
            role="miner",
            stack=self._stack if engine is None else engine.stack,
            architectures=list(self._settings.architectures),
            loaded=loaded,
            loading=self._loading,
            max_samples=self._settings.max_samples,
        )
        await self._client.announce(announcement)
        self._announced = True
        if announcement != self._last_announcement:
            self._last_announcement = announcement
            log.info("announced", loaded=loaded.model if loaded else "nothing")

    async def _announce_again(self) -> None:
        """Announce every minute, also during a long generation; the work loop was first."""
        while True:
            await asyncio.sleep(ANNOUNCE_SECONDS)
            try:
                await self._announce()
            except (GatewayUnavailable, GatewayRefused) as error:
                # The work loop meets the same answer and deals with it.
                log.info("announcement failed", reason=str(error))

    async def _pause(self, seconds: float) -> None:
        """Wait, but no longer than until the miner is told to stop."""
        try:
            await asyncio.wait_for(self._stopping.wait(), seconds)
        except TimeoutError:
            return


def run_miner(settings: MinerSettings) -> None:
    """Run one miner until SIGINT or SIGTERM; a second signal ends it at once.

    Raises:
        HotkeyError: the hotkey file cannot be used.
        EngineError: the engine is not installed.
        ChainError: the gateway is to be found on the chain, and is not.
        GatewayRefused: the gateway speaks another version of the protocol, or has another hotkey.
    """
    keypair = load_or_create_hotkey(settings.hotkey)
    asyncio.run(_run(settings, keypair))


async def _run(settings: MinerSettings, keypair: Keypair) -> None:
    settings = await settings.located(time.time)
    async with NodeClient(settings.gateway, keypair, settings.gateway_hotkey) as client:
        node = MinerNode(settings, client, keypair)
        log.info("miner started", hotkey=keypair.ss58_address, gateway=settings.gateway)
        working = asyncio.create_task(node.run())
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, _on_signal, node, working)
        try:
            await working
        except asyncio.CancelledError:
            log.warning("stopped at once")


def _on_signal(node: MinerNode, working: "asyncio.Task[None]") -> None:
    if node.stopping:
        working.cancel()
    else:
        log.info("told to stop; once more stops at once")
        node.stop()
