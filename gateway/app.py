"""The gateway as an ASGI application."""

import asyncio
import secrets
import shutil
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import structlog
from fastapi import APIRouter, Depends, FastAPI

from gateway.api import (
    balance,
    epochs,
    errors,
    native,
    native_deliveries,
    native_files,
    native_lines,
    native_orders,
    native_quotes,
    nodes,
    openai_batches,
    openai_files,
    openrelay_batches,
    openrelay_files,
)
from gateway.api.bodies import BodyGuard
from gateway.api.documented import describe
from gateway.api.middleware import FloodGate, RequestLog
from gateway.api.multipart import MAX_OVERHEAD
from gateway.api.native_documented import PREFIX
from gateway.api.rates import AtOnce, BodyBudget, RateLimit
from gateway.api.state import State, StateOf
from gateway.catalog.lookup import Catalog
from gateway.catalog.prices import load_prices
from gateway.errors import GatewayError
from gateway.graders.pool import GraderPool
from gateway.intake.pool import IntakePool
from gateway.key_locks import KeyLocks
from gateway.lock import sole_user
from gateway.neurons import Neurons
from gateway.orders import background
from gateway.orders.demand import Board
from gateway.orders.waiting import WaitingRoom
from gateway.settings import GatewaySettings
from gateway.store.engine import Store
from gateway.store.objects import open_objects
from gateway.uploads import PART_BYTES
from gateway.workers import WorkerPool
from protocol.chain.base import Chain
from protocol.keys import load_or_create_hotkey
from protocol.repository import download

log = structlog.get_logger("gateway")

OPENAI_MOUNT = "/api/openai/v1"
OPENRELAY_MOUNT = "/v1"

MAX_RESULT_BYTES = 64 * 1024 * 1024
MAX_VERDICTS_BYTES = 16 * 1024 * 1024
MAX_NODE_BODY_BYTES = 1024 * 1024
# Twice the largest create body with all of it escaped; reading one keeps other requests waiting.
MAX_JSON_BYTES = 256 * 1024
# A node's client waits no longer for its answer; reading the largest result takes a tenth of it.
READING_SECONDS = 30.0
# All bodies of nodes that are held before their sender is proven.
BODY_BUDGET_BYTES = 8 * MAX_RESULT_BYTES
# Each holds a piece of its file in memory while its reader is slow.
DOWNLOADS_AT_ONCE = 32
# Of one account; its files are read one after another.
CREATIONS_AT_ONCE = 20
NODE_REQUESTS_PER_SECOND = 20.0
NODE_BURST = 100


def create_app(
    settings: GatewaySettings, *, chain: Chain, clock: Callable[[], float] = time.time
) -> FastAPI:
    """Return the gateway's application; its parts are opened when it starts.

    Args:
        chain: says who is registered.
        clock: seconds since the epoch.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        settings.data.mkdir(parents=True, exist_ok=True)
        with sole_user(settings.data):
            async with opened(settings, chain, clock) as state:
                app.state.gateway = state
                yield

    app = FastAPI(
        title="Reliquary Batch",
        version="0.1.0",
        lifespan=lifespan,
        openapi_url=None,
        redirect_slashes=False,
        separate_input_output_schemas=False,
    )
    errors.install(app)
    app.include_router(nodes.router)
    app.include_router(epochs.router)
    customers = APIRouter(dependencies=[Depends(_batches_enabled)])
    customers.include_router(openai_files.router, prefix=OPENAI_MOUNT)
    customers.include_router(openai_batches.router, prefix=OPENAI_MOUNT)
    customers.include_router(openrelay_files.router, prefix=OPENRELAY_MOUNT)
    customers.include_router(openrelay_batches.router, prefix=OPENRELAY_MOUNT)
    for routes in (
        native,
        native_files,
        native_quotes,
        native_orders,
        native_lines,
        native_deliveries,
        balance,
    ):
        customers.include_router(routes.router, prefix=PREFIX)
    app.include_router(customers)
    app.openapi = lambda: describe(app)
    # The one added last is the outermost.
    app.add_middleware(BodyGuard, limit_of=body_limit)
    app.add_middleware(FloodGate)
    app.add_middleware(RequestLog)
    return app


@asynccontextmanager
async def opened(
    settings: GatewaySettings, chain: Chain, clock: Callable[[], float]
) -> AsyncIterator[State]:
    """Open the gateway's parts and run its background work; close all of it on leaving.

    The data folder exists and is this process's own.
    """
    # What a killed process was reading is of no use to anybody.
    shutil.rmtree(settings.incoming, ignore_errors=True)
    settings.incoming.mkdir()
    keypair = load_or_create_hotkey(settings.hotkey)
    objects = open_objects(settings.objects_url)
    intake = IntakePool(settings.intake_workers)
    readers = WorkerPool(1, READING_SECONDS, READING_SECONDS, "gateway_busy")
    graders = GraderPool(settings.intake_workers)
    catalog = Catalog(read_in=intake.run, prices=load_prices(settings.prices))
    store = await Store.open(settings.database_url.get_secret_value(), objects)
    try:
        async with intake, readers, graders:
            state = State(
                settings=settings,
                store=store,
                intake=intake,
                readers=readers,
                catalog=catalog,
                keypair=keypair,
                neurons=Neurons(chain, clock),
                clock=clock,
                random_bits=secrets.randbits,
                node_rates=RateLimit(NODE_REQUESTS_PER_SECOND, NODE_BURST, time.monotonic),
                body_budget=BodyBudget(BODY_BUDGET_BYTES),
                creations=AtOnce(CREATIONS_AT_ONCE, "batches"),
                twins=KeyLocks(),
                uploads=AtOnce(settings.uploads_at_once, "uploads"),
                downloads=AtOnce(DOWNLOADS_AT_ONCE, "downloads"),
                waiting=WaitingRoom(store, settings.policy),
                board=Board(store, settings.policy, lambda: int(clock() * 1000)),
            )
            work = asyncio.create_task(
                background.run(
                    store,
                    chain,
                    settings.policy,
                    partial(download, weights=False),
                    keypair,
                    [load_or_create_hotkey(path) for path in settings.probe_hotkeys],
                    graders,
                    settings.incoming,
                    clock,
                )
            )
            waking = asyncio.create_task(state.waiting.attend())
            for task in (work, waking):
                task.add_done_callback(_report_death)
            try:
                yield state
            finally:
                for task in (work, waking):
                    task.cancel()
                await asyncio.wait((work, waking))
    finally:
        catalog.close()
        await store.close()


def body_limit(path: str) -> int:
    """Return the largest request body of a path, in bytes."""
    if path == f"{OPENAI_MOUNT}/files":
        return openai_files.MAX_UPLOAD_BYTES + MAX_OVERHEAD
    if path == f"{OPENRELAY_MOUNT}/files":
        return openrelay_files.MAX_UPLOAD_BYTES + MAX_OVERHEAD
    if path == f"{OPENRELAY_MOUNT}/batches":
        return openrelay_files.MAX_UPLOAD_BYTES
    if path.startswith(f"{PREFIX}/files/") and "/parts/" in path:
        return PART_BYTES
    if path.startswith("/nodes/") and path.endswith("/result"):
        return MAX_RESULT_BYTES
    if path.startswith("/nodes/") and path.endswith("/verdicts"):
        return MAX_VERDICTS_BYTES
    return MAX_NODE_BODY_BYTES if path.startswith("/nodes/") else MAX_JSON_BYTES


async def _batches_enabled(state: StateOf) -> None:
    if not state.settings.batches_enabled:
        raise GatewayError(404, "not_available", "Batches are switched off on this deployment.")


def _report_death(work: "asyncio.Task[Any]") -> None:
    if not work.cancelled() and work.exception() is not None:
        log.error("background work ended", exc_info=work.exception())
