"""The validator: leases what miners generated, audits every token, signs what it finds."""

import asyncio
import signal
import time
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version

import structlog
from bittensor_core import Keypair

from protocol.client import GatewayRefused, GatewayUnavailable, NodeClient
from protocol.keys import load_or_create_hotkey
from protocol.messages import (
    Announcement,
    AuditLease,
    DemandBoard,
    LeaseRequest,
    LoadedModel,
    Stack,
)
from protocol.placement import Offer, Placement
from validator import worker
from validator.forward import ARCHITECTURES, ForwardFailed, UnsupportedModel
from validator.lease_audit import RETRY_SECONDS, Clock, LeaseAudit
from validator.model_process import AuditCancelled, ModelProcess
from validator.placement import offers
from validator.settings import ValidatorSettings
from validator.weighing import setting_weights

ANNOUNCE_SECONDS = 60.0
# A model that could not be loaded is not tried again for this long.
REFUSED_SECONDS = 600.0
# No wait and no further try mends these.
FATAL_CODES = frozenset({"wire_version", "wrong_gateway"})

log = structlog.get_logger(__name__)


def run_validator(settings: ValidatorSettings) -> None:
    """Run a validator until SIGTERM or SIGINT.

    Raises:
        HotkeyError: the hotkey file cannot be used.
        ChainError: the gateway is to be found on the chain, and is not.
        StateError: the file of the weights' state is damaged.
        GatewayRefused: the gateway speaks another version of the protocol, or has another hotkey.
    """
    keypair = load_or_create_hotkey(settings.hotkey)
    asyncio.run(_run(settings, keypair))


async def _run(settings: ValidatorSettings, keypair: Keypair) -> None:
    settings = await settings.located(time.time)
    async with (
        setting_weights(settings, keypair, time.time),
        NodeClient(settings.gateway, keypair, settings.gateway_hotkey) as client,
    ):
        validator = Validator(settings, keypair, client, time.monotonic)
        work = asyncio.create_task(validator.run())
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, work.cancel)
        with suppress(asyncio.CancelledError):
            await work
    log.info("stopped")


class Validator:
    """One validator at one gateway.

    Args:
        settings: what the operator set.
        keypair: the hotkey that signs verdicts.
        client: an open client of the gateway that signs with the same hotkey.
        clock: seconds, never backwards.
        now: seconds since the epoch.
    """

    def __init__(
        self,
        settings: ValidatorSettings,
        keypair: Keypair,
        client: NodeClient,
        clock: Clock,
        now: Clock = time.time,
    ) -> None:
        self._settings = settings
        self._keypair = keypair
        self._client = client
        self._clock = clock
        self._process: ModelProcess | None = None
        self._loaded: LoadedModel | None = None
        self._loading: LoadedModel | None = None
        self._placement = Placement(
            client.hotkey, settings.switch_seconds, settings.idle_seconds, self._offers, clock, now
        )
        # The board is looked at once more when another model may be loaded.
        self._wait_seconds = min(settings.wait_seconds, settings.switch_seconds)
        self._announced: Announcement | None = None
        self._refused: dict[LoadedModel, float] = {}

    async def run(self) -> None:
        """Work until cancelled; then give back a lease that is held and end the model's process."""
        log.info("validator", hotkey=self._keypair.ss58_address, gateway=self._settings.gateway)
        announcing = asyncio.create_task(self._keep_announcing())
        try:
            while True:
                await self._turn()
        finally:
            announcing.cancel()
            self._unload()

    async def _turn(self) -> None:
        """Audit one unit, or change the model, or wait a little."""
        try:
            if self._placement.is_due and await self._place():
                return
            if await self._audit_next() or await self._place():
                return
            await self._placement.rest(self._client, self._settings.wait_seconds)
        except GatewayUnavailable as error:
            log.warning("the gateway does not answer", reason=str(error))
            await asyncio.sleep(RETRY_SECONDS)
        except GatewayRefused as error:
            if error.code in FATAL_CODES:
                raise
            log.warning("the gateway refused", code=error.code, reason=error.message)
            await self._heed(error.code)
            await asyncio.sleep(RETRY_SECONDS)

    async def _heed(self, code: str) -> None:
        """Do what the gateway's refusal asks for."""
        if code == "not_announced":
            with suppress(GatewayUnavailable, GatewayRefused):
                await self._announce()
        elif code == "leases_unanswered" and self._loaded is not None:
            # Of this commit alone; others may go well.
            self._refused[self._loaded] = self._clock() + REFUSED_SECONDS
            self._unload()

    async def _keep_announcing(self) -> None:
        while True:
            with suppress(GatewayUnavailable, GatewayRefused):
                await self._announce()
            await asyncio.sleep(ANNOUNCE_SECONDS)

    async def _intend(self, loading: LoadedModel | None) -> None:
        """Announce what is going to be loaded."""
        self._loading = loading
        await self._announce()

    async def _announce(self) -> None:
        announcement = Announcement(
            role="validator",
            stack=self._stack(),
            architectures=list(ARCHITECTURES),
            loaded=self._loaded,
            loading=self._loading,
            max_samples=self._settings.max_samples,
        )
        await self._client.announce(announcement)
        if announcement != self._announced:
            self._announced = announcement
            log.info("announced", loaded=self._loaded.model if self._loaded else "nothing")

    def _stack(self) -> Stack:
        if self._process is not None and self._process.stack is not None:
            return self._process.stack
        return Stack(
            engine=self._settings.engine,
            version=_engine_version(self._settings.engine),
            dtype=self._settings.dtype,
            head_dtype="float32",
            device=self._settings.device,
        )

    async def _place(self) -> bool:
        """Load the model that the board asks for; return whether another one is loaded now."""
        now = self._clock()
        self._refused = {model: until for model, until in self._refused.items() if until > now}
        wanted = await self._placement.wanted(self._client, self._intend)
        if wanted is None or wanted == self._loaded:
            return False
        self._unload()
        log.info("loading", model=wanted.model, revision=wanted.revision)
        process = ModelProcess(self._load_message(wanted))
        self._process = process
        try:
            await asyncio.to_thread(process.start, _log_download)
        except (UnsupportedModel, ForwardFailed) as error:
            log.error("cannot load", model=wanted.model, reason=str(error))
            self._refused[wanted] = self._clock() + REFUSED_SECONDS
            self._unload()
            await self._intend(None)
            return False
        self._loaded, self._loading = wanted, None
        seconds = self._clock() - now
        self._placement.note_loaded(wanted, seconds)
        log.info("loaded", model=wanted.model, seconds=round(seconds, 1))
        await self._announce()
        return True

    def _offers(self, board: DemandBoard) -> list[Offer]:
        return offers(board, ARCHITECTURES, self._refused)

    def _load_message(self, wanted: LoadedModel) -> worker.Load:
        settings = self._settings
        return worker.Load(
            model=wanted.model,
            revision=wanted.revision,
            models=settings.models,
            engine=settings.engine,
            dtype=None if settings.dtype == "auto" else settings.dtype,
            device=settings.device,
            threads=settings.threads,
        )

    def _unload(self) -> None:
        if self._process is not None:
            self._process.close()
        self._process, self._loaded = None, None
        self._placement.note_loaded(None)

    async def _audit_next(self) -> bool:
        """Lease and audit one unit of the loaded model; return whether there was one."""
        if self._loaded is None or self._process is None:
            return False
        request = LeaseRequest(
            role="validator",
            loaded=self._loaded,
            max_samples=self._settings.max_samples,
            wait_seconds=self._wait_seconds,
        )
        lease = await self._client.lease_audit(request)
        if lease is None:
            return False
        started, tokens = self._clock(), sum(map(len, lease.result.samples))
        try:
            await self._lease_audit(self._process).run(lease)
            self._placement.note_work(tokens, self._clock() - started)
        except AuditCancelled:
            log.info("lease over", unit=lease.work.unit_id)
        except asyncio.CancelledError:
            await self._give_back(lease)
            raise
        return True

    def _lease_audit(self, process: ModelProcess) -> LeaseAudit:
        pack_tokens = self._settings.pack_tokens
        return LeaseAudit(
            self._keypair, self._client, process, self._stack(), pack_tokens, self._clock
        )

    async def _give_back(self, lease: AuditLease) -> None:
        self._unload()
        with suppress(GatewayUnavailable, GatewayRefused, TimeoutError):
            async with asyncio.timeout(RETRY_SECONDS):
                await self._client.release(lease.lease_id)


def _engine_version(engine: str) -> str:
    # vLLM's build for the CPU is a package of another name.
    for package in (engine, f"{engine}-cpu"):
        with suppress(PackageNotFoundError):
            return version(package)
    return "none"


def _log_download(done: int, total: int) -> None:
    log.info("downloading", megabytes=done >> 20, of=total >> 20)
