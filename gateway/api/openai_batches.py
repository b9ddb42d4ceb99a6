"""``/api/openai/v1/batches``: create, read, list and cancel."""

import asyncio
import re
import shutil
from typing import Annotated

import structlog
from fastapi import APIRouter, Depends, Path, Request

from gateway.api.auth import Customer
from gateway.api.batch_object import batch_object
from gateway.api.create_batch import (
    CreateBatch,
    parse_create,
    parse_idempotency_key,
    read_object,
)
from gateway.api.documented import CREATE_BATCH_BODY, answers, with_scope
from gateway.api.models import Batch, BatchList, Queue
from gateway.api.requests import Cursor, PageLimit, given_once, json_bytes
from gateway.api.state import State, StateOf
from gateway.api_keys import Principal
from gateway.errors import GatewayError
from gateway.files import find_input, on_local_disk
from gateway.orders import life, reading
from gateway.orders.placing import Placement, find_idempotent, place
from gateway.orders.quote import Quote, QuoteRequest, quote
from gateway.store.tables import Dialect, File, Order, OrderStatus

log = structlog.get_logger("gateway.batches")

SEED_BITS = 53

router = APIRouter(tags=["OpenAI-compatible Batch"])

BatchId = Annotated[str, Path(pattern="^[A-Za-z0-9_-]{1,80}$")]
_BATCH_ID = re.compile(
    r"batch_([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})", re.ASCII
)


@router.post(
    "/batches",
    operation_id="openaiCreateBatch",
    summary="Create a batch",
    responses=answers(400, 402, 409, 422, 429, 503),
    openapi_extra=with_scope(CREATE_BATCH_BODY),
)
async def create_batch(request: Request, principal: Customer, state: StateOf) -> Batch:
    """Quote a file and order it in one call."""
    key = parse_idempotency_key(request.headers.getlist("idempotency-key"))
    wanted = parse_create(read_object(await json_bytes(request)))
    if key is None:
        return await _shown(state, await _create(state, principal, wanted, None))
    # A twin that comes while the first is at work waits here, and then finds its batch.
    async with state.creations.hold((principal.account_id, key)):
        order = await find_idempotent(state.store, principal.account_id, key, wanted.digest)
        if order is None:
            order = await _create(state, principal, wanted, key)
    return await _shown(state, order)


@router.get(
    "/batches",
    operation_id="openaiListBatches",
    summary="List batches",
    responses=answers(),
    openapi_extra=with_scope(),
    dependencies=[Depends(given_once("limit", "after"))],
)
async def list_batches(
    principal: Customer, state: StateOf, limit: PageLimit = 20, after: Cursor = None
) -> BatchList:
    """Return a page of batches, newest first."""
    cursor = None if after is None else _cursor(after)
    rows, has_more = await reading.list_orders(state.store, principal.account_id, limit, cursor)
    data = [await _shown(state, row) for row in rows]
    return BatchList(
        object="list",
        data=data,
        first_id=data[0].id if data else None,
        last_id=data[-1].id if data else None,
        has_more=has_more,
    )


@router.get(
    "/batches/{batch_id}",
    operation_id="openaiGetBatch",
    summary="Read a batch",
    responses=answers(),
    openapi_extra=with_scope(),
)
async def get_batch(batch_id: BatchId, principal: Customer, state: StateOf) -> Batch:
    """Return a batch and its request counts."""
    order_id = _known_order_id(batch_id)
    return await _shown(state, await reading.get_order(state.store, principal.account_id, order_id))


@router.post(
    "/batches/{batch_id}/cancel",
    operation_id="openaiCancelBatch",
    summary="Cancel a batch",
    responses=answers(409),
    openapi_extra=with_scope(),
)
async def cancel_batch(batch_id: BatchId, principal: Customer, state: StateOf) -> Batch:
    """Cancel a batch; what was verified is delivered. The body is never read."""
    order_id = _known_order_id(batch_id)
    return await _shown(
        state, await life.cancel(state.store, principal.account_id, order_id, state.now_ms())
    )


async def _create(
    state: State, principal: Principal, wanted: CreateBatch, idempotency_key: str | None
) -> Order:
    source = await find_input(state.store, principal.account_id, wanted.input_file_id)
    quoted = await _quote(state, wanted, source)
    placement = Placement(
        input_file_id=source.id,
        dialect=Dialect.OPENAI,
        completion_window_hours=wanted.completion_window_hours,
        metadata=wanted.metadata,
        idempotency_key=idempotency_key,
        body_sha256=wanted.digest,
        drawn_seed=state.random_bits(SEED_BITS),
    )
    try:
        order = await place(
            state.store,
            principal.account_id,
            quoted,
            placement,
            state.settings.policy,
            state.now_ms(),
        )
    finally:
        await asyncio.to_thread(shutil.rmtree, quoted.intake.folder, ignore_errors=True)
    log.info(
        "order placed",
        order_id=order.id,
        model=order.model,
        revision=order.revision,
        lines=order.lines_usable,
        refused=order.lines_refused,
        samples=order.samples_total,
    )
    return order


async def _quote(state: State, wanted: CreateBatch, source: File) -> Quote:
    folder = state.settings.incoming
    async with on_local_disk(state.store, source, folder) as path:
        request = QuoteRequest(
            endpoint=wanted.endpoint,
            completion_window_hours=wanted.completion_window_hours,
            metadata=wanted.metadata or {},
            input_path=path,
            grader=wanted.grader,
        )
        return await quote(request, state.intake, state.catalog, folder, state.now_ms())


async def _shown(state: State, order: Order) -> Batch:
    if order.status != OrderStatus.VALIDATING:
        return batch_object(order, None)
    position = await reading.queue_position(state.store, order)
    # No estimate yet: it needs the measured speed of the nodes that are live.
    queue = Queue(queue_position=position, estimated_start_at=None, reason="waiting_for_capacity")
    return batch_object(order, queue)


def _order_id(batch_id: str) -> str | None:
    match = _BATCH_ID.fullmatch(batch_id)
    return None if match is None else match[1]


def _cursor(after: str) -> str:
    order_id = _order_id(after)
    if order_id is None:
        raise GatewayError(
            400, "invalid_request", "after must be the id of one of your batches.", "after"
        )
    return order_id


def _known_order_id(batch_id: str) -> str:
    order_id = _order_id(batch_id)
    if order_id is None:
        raise GatewayError(404, "batch_not_found", "There is no such batch.")
    return order_id
