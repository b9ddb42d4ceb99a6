"""Placing orders and showing them: what the routes of every dialect share."""

import asyncio
import re
import shutil
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from gateway.api.batch_object import batch_object
from gateway.api.create_batch import CreateBatch
from gateway.api.models import Batch, Queue
from gateway.api.sources import Source
from gateway.api.state import State
from gateway.errors import GatewayError
from gateway.orders import life, reading
from gateway.orders.placing import Placement, find_idempotent, place
from gateway.orders.queue import Place, places_in_line
from gateway.orders.quote import Quote, QuoteRequest, quote
from gateway.orders.quotes import count_quote
from gateway.store.tables import Dialect, Order, OrderStatus

SEED_BITS = 53

_BATCH_ID = re.compile(
    r"batch_([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})", re.ASCII
)


async def create_order(
    state: State,
    account_id: str,
    wanted: CreateBatch,
    source: Source,
    idempotency_key: str | None,
    dialect: Dialect,
) -> Order:
    """Quote an input and order it; a request with a known idempotency key gets its order.

    Raises:
        GatewayError: 429 where the account creates too many at once; else by the contract's
            precedence.
    """
    with state.creations.enter(account_id):
        if idempotency_key is None:
            return await _create(state, account_id, wanted, source, None, dialect)
        # A twin that comes while the first is at work waits here, and then finds its batch.
        async with state.twins.hold((account_id, idempotency_key)):
            order = await find_idempotent(state.store, account_id, idempotency_key, wanted.digest)
            if order is None:
                order = await _create(state, account_id, wanted, source, idempotency_key, dialect)
        return order


async def find_order(state: State, account_id: str, batch_id: str) -> Order:
    """Return the order of a batch.

    Raises:
        GatewayError: 404 ``batch_not_found``.
    """
    return await reading.get_order(state.store, account_id, _known_order_id(batch_id))


async def cancel_order(state: State, account_id: str, batch_id: str) -> Order:
    """Cancel a batch and return its order.

    Raises:
        GatewayError: 404 ``batch_not_found``, 409 ``batch_not_cancellable``.
    """
    return await life.cancel(state.store, account_id, _known_order_id(batch_id), state.now_ms())


async def page_of_orders(
    state: State, account_id: str, limit: int, after: str | None
) -> tuple[Sequence[Order], bool]:
    """Return a page of orders, newest first, and whether there are more.

    Args:
        after: the id of the last batch of the page before, or None.

    Raises:
        GatewayError: 400 for a cursor that is no batch of this account.
    """
    cursor = None
    if after is not None:
        cursor = _order_id(after)
        if cursor is None:
            raise GatewayError(
                400, "invalid_request", "after must be the id of one of your batches.", "after"
            )
    return await reading.list_orders(state.store, account_id, limit, cursor)


async def shown(state: State, order: Order) -> Batch:
    """Return an order as the contract's batch, with its place in line while it waits."""
    (batch,) = await all_shown(state, [order])
    return batch


async def all_shown(state: State, orders: Sequence[Order]) -> list[Batch]:
    """Return ``shown`` of each order, looking at the line once."""
    queues = await queues_of(state, orders)
    return [batch_object(order, queues.get(order.id)) for order in orders]


async def queues_of(state: State, orders: Sequence[Order]) -> dict[str, Queue]:
    """Return where those of ``orders`` that wait to start stand in line."""
    waiting = [order for order in orders if order.status == OrderStatus.VALIDATING]
    places = await places_in_line(state.store, waiting, state.settings.policy, state.now_ms())
    return {order_id: _queue(place) for order_id, place in places.items()}


def _queue(place: Place) -> Queue:
    start = None
    if place.start_at_ms is not None:
        moment = datetime.fromtimestamp(place.start_at_ms // 1000, UTC)
        start = moment.strftime("%Y-%m-%dT%H:%M:%SZ")
    return Queue(
        queue_position=place.position,
        estimated_start_at=start,
        reason="waiting_for_capacity" if place.waits_for_capacity else None,
    )


async def _create(
    state: State,
    account_id: str,
    wanted: CreateBatch,
    source: Source,
    idempotency_key: str | None,
    dialect: Dialect,
) -> Order:
    policy = state.settings.policy
    async with source.on_disk() as found:
        quoted = await _quote(state, account_id, wanted, found.path)
        try:
            await count_quote(state.store, account_id, policy, state.now_ms())
            async with source.as_file(found) as file_id:
                placement = Placement(
                    input_file_id=file_id,
                    dialect=dialect,
                    completion_window_hours=wanted.completion_window_hours,
                    metadata=wanted.metadata,
                    idempotency_key=idempotency_key,
                    body_sha256=wanted.digest,
                    drawn_seed=state.random_bits(SEED_BITS),
                )
                return await place(
                    state.store, account_id, quoted, placement, policy, state.now_ms()
                )
        finally:
            await asyncio.to_thread(shutil.rmtree, quoted.intake.folder, ignore_errors=True)


async def _quote(state: State, account_id: str, wanted: CreateBatch, path: Path) -> Quote:
    request = QuoteRequest(
        account_id=account_id,
        endpoint=wanted.endpoint,
        completion_window_hours=wanted.completion_window_hours,
        metadata=wanted.metadata or {},
        input_path=path,
        grader=wanted.grader,
        model_hint=wanted.model_hint,
    )
    folder = state.settings.incoming
    return await quote(request, state.intake, state.catalog, state.capacity, folder, state.now_ms())


def _order_id(batch_id: str) -> str | None:
    match = _BATCH_ID.fullmatch(batch_id)
    return None if match is None else match[1]


def _known_order_id(batch_id: str) -> str:
    order_id = _order_id(batch_id)
    if order_id is None:
        raise GatewayError(*reading.BATCH_NOT_FOUND)
    return order_id
