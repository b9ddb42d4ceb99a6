"""The gateway's background work. Any number of replicas may run it at once: all of it is rows."""

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import structlog
from bittensor_core import Keypair
from sqlmodel import col, select

from gateway import uploads
from gateway.epochs.writing import write_due
from gateway.graders.pool import GraderPool
from gateway.orders import convicting, export, kept_quotes, known_units, leases, life, reviewing
from gateway.orders.failing import note_failure
from gateway.orders.policy import Policy
from gateway.store import unnamed
from gateway.store.engine import Store
from gateway.store.tables import Order, OrderStatus, new_id
from protocol.chain.base import Chain

# So many times as long as it worked, and so many seconds at least, the background rests, but no
# longer than a tick.
REST = 3.0
LEAST_REST_SECONDS = 0.1
# Of the objects that no row names; what may be removed is much older.
SWEEP_SECONDS = 6 * 3600

log = structlog.get_logger("gateway.background")


async def run(
    store: Store,
    chain: Chain,
    policy: Policy,
    model_folder: export.ModelFolder,
    keypair: Keypair,
    probes: Sequence[Keypair],
    graders: GraderPool,
    scratch: Path,
    clock: Callable[[], float],
) -> None:
    """Look round every tick, and for what has news at once; ends only by being cancelled.

    Leases that lapsed while no gateway ran get one lease length to be renewed.

    Args:
        chain: its blocks draw who gets a second opinion; its head goes into public records.
        model_folder: returns the folder of a model's files at a commit, downloading them; blocking.
        keypair: the gateway's hotkey, which leases were signed with.
        probes: the hotkeys that sign known-answer units.
        graders: grade evaluations.
        scratch: folder for files at work.
        clock: seconds since the epoch.
    """
    signers = known_units.Signers(keypair, probes)
    reap_from_ms = int(clock() * 1000) + policy.lease_ms

    async def look_round() -> None:
        if int(clock() * 1000) >= reap_from_ms:
            await _isolated("reaping leases", reap(store, clock))
        secret, now_ms = secrets.token_bytes(32), int(clock() * 1000)
        ready = known_units.keep_ready(store, signers, policy, secret, now_ms)
        await _isolated("known-answer units", ready)
        await _isolated("quotes", kept_quotes.sweep(store, int(clock() * 1000)))
        await _isolated("uploads", uploads.sweep(store, int(clock() * 1000)))
        await _isolated("epochs", write_due(store, chain, keypair, policy, int(clock() * 1000)))

    async def keep_up() -> None:
        await _isolated("ending orders", end_orders(store, policy, clock))
        await _isolated("convictions", convicting.redo_undelivered(store, int(clock() * 1000)))
        await _isolated("reviews", reviewing.attend(store, chain, policy, int(clock() * 1000)))

    async def deliver() -> None:
        work = export_orders(store, policy, model_folder, keypair, graders, scratch, clock)
        await _isolated("exporting", work)

    # Apart, so that a long export keeps no dead miner's lease alive.
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(_every_tick(look_round, policy))
        tasks.create_task(_again_and_again(keep_up, store, policy))
        tasks.create_task(_again_and_again(deliver, store, policy))
        tasks.create_task(_sweep_objects(store))


async def _every_tick(work: Callable[[], Awaitable[None]], policy: Policy) -> None:
    while True:
        await work()
        await asyncio.sleep(policy.tick_ms / 1000)


async def _again_and_again(
    work: Callable[[], Awaitable[None]], store: Store, policy: Policy
) -> None:
    while True:
        heard, started = store.news, asyncio.get_running_loop().time()
        await work()
        # However much news there is, requests get most of the processor.
        worked = asyncio.get_running_loop().time() - started
        rest = max(REST * worked, LEAST_REST_SECONDS)
        await asyncio.sleep(min(rest, policy.tick_ms / 1000))
        await store.wait_for_news(policy.tick_ms / 1000, heard)


async def _sweep_objects(store: Store) -> None:
    while True:
        await _isolated("unnamed objects", unnamed.sweep(store, int(time.time() * 1000)))
        await asyncio.sleep(SWEEP_SECONDS)


async def reap(store: Store, clock: Callable[[], float]) -> None:
    """End the leases that were not renewed in time."""
    now_ms = int(clock() * 1000)
    for lease_id in await leases.lapsed(store, now_ms):
        if await leases.reap(store, lease_id, now_ms):
            log.info("lease lapsed", lease_id=lease_id)


async def end_orders(store: Store, policy: Policy, clock: Callable[[], float]) -> None:
    """End the generation of orders whose window is over or that were cancelled."""
    now_ms = int(clock() * 1000)
    at_work = (OrderStatus.VALIDATING, OrderStatus.IN_PROGRESS)
    overdue = select(Order.id).where(
        col(Order.status).in_(at_work), col(Order.expires_at_ms) <= now_ms
    )
    cancelling = select(Order.id).where(
        col(Order.status) == OrderStatus.CANCELLING, col(Order.ending).is_(None)
    )
    async with store.glance() as session:
        overdue_ids = (await session.exec(overdue)).all()
        cancelling_ids = (await session.exec(cancelling)).all()
    for order_id in overdue_ids:
        if await life.expire(store, order_id, now_ms):
            log.info("order expired", order_id=order_id)
    for order_id in cancelling_ids:
        if await life.stop_cancelled(store, order_id, policy, now_ms):
            log.info("order stopped", order_id=order_id)


async def export_orders(
    store: Store,
    policy: Policy,
    model_folder: export.ModelFolder,
    keypair: Keypair,
    graders: GraderPool,
    scratch: Path,
    clock: Callable[[], float],
) -> None:
    """Export the orders whose generation is over; one that fails keeps no other from its turn."""
    for order_id in await export.waiting(store, int(clock() * 1000)):
        holder = new_id()
        tools = (model_folder, keypair, graders, scratch, policy, clock)
        error = await _isolated(
            "export of an order",
            export.export(store, order_id, holder, *tools),
            order_id=order_id,
        )
        if error is not None and not isinstance(error, export.ExportLost):
            now_ms = int(clock() * 1000)
            await note_failure(store, order_id, holder, error, scratch, policy, now_ms)


async def _isolated(name: str, work: Awaitable[object], **context: str) -> BaseException | None:
    """Run a part of the work; log its failure and return it, whatever it was."""
    (outcome,) = await asyncio.gather(work, return_exceptions=True)
    if not isinstance(outcome, BaseException):
        return None
    log.error(f"{name} failed", error=type(outcome).__name__, exc_info=outcome, **context)
    return outcome
