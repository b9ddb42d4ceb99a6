"""``/api/v1/dataset-orders``: place, read, list and cancel orders."""

import re
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from pydantic import ConfigDict, Field

from gateway.api.auth import Customer
from gateway.api.create_batch import digest_of
from gateway.api.native_bodies import Body, documented_body, read_body
from gateway.api.native_deliveries import OrderId, deliveries_of, find_order
from gateway.api.native_documented import ORDERS, documented
from gateway.api.native_examples import ORDER_ID
from gateway.api.native_order_object import DatasetOrder, DatasetOrderList, order_object
from gateway.api.ordering import SEED_BITS, queues_of
from gateway.api.requests import PageLimit, given_once
from gateway.api.state import State, StateOf
from gateway.errors import GatewayError
from gateway.figures import miner_figures
from gateway.ledger.charges import bills
from gateway.orders import life, reading
from gateway.orders.evaluation import GRADER, evaluation_of
from gateway.orders.kept_quotes import find_quote, read_quote
from gateway.orders.placing import Placement, find_idempotent, place
from gateway.store.tables import Dialect, Order

router = APIRouter(tags=[ORDERS])

ID_PATTERN = "^[A-Za-z0-9_-]{1,80}$"
_KEY = re.compile("[A-Za-z0-9_-]{16,80}", re.ASCII)
_KEY_PARAMETER: dict[str, Any] = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": True,
    "description": "A repeat of the request with the same key returns the same order.",
    "schema": {"type": "string", "pattern": "^[A-Za-z0-9_-]{16,80}$"},
    "example": "order-2025-11-09-0001",
}


class PlaceOrder(Body):
    """The quote that is ordered."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"quote_id": ORDER_ID}]})

    quote_id: Annotated[str, Field(pattern=ID_PATTERN)]


@router.post(
    "/dataset-orders",
    summary="Order a quote",
    **documented(
        400,
        402,
        409,
        415,
        429,
        extra={"parameters": [_KEY_PARAMETER], **documented_body(PlaceOrder)},
    ),
)
async def place_order(request: Request, principal: Customer, state: StateOf) -> DatasetOrder:
    """Place an order on a quote; its price is reserved. A quote can be ordered once."""
    key = _idempotency_key(request.headers.getlist("idempotency-key"))
    wanted = await read_body(request, PlaceOrder)
    account_id, store = principal.account_id, state.store
    digest = digest_of(wanted.model_dump())
    # A twin that comes while the first is at work waits here, and then finds its order.
    async with state.twins.hold((account_id, key)):
        order = await find_idempotent(store, account_id, key, digest)
        if order is None:
            order = await _placed(state, account_id, wanted.quote_id, key, digest)
    return await _shown(state, order)


@router.get(
    "/dataset-orders",
    summary="List orders",
    dependencies=[Depends(given_once("limit", "after"))],
    **documented(400),
)
async def list_orders(
    principal: Customer,
    state: StateOf,
    limit: PageLimit = 20,
    after: Annotated[str | None, Query(pattern=ID_PATTERN)] = None,
) -> DatasetOrderList:
    """Return a page of orders of every API, newest first."""
    try:
        rows, has_more = await reading.list_orders(state.store, principal.account_id, limit, after)
    except GatewayError as error:
        message = "after must be the id of one of your orders."
        raise GatewayError(error.status, error.code, message, "after") from error
    data = await _all_shown(state, rows)
    return DatasetOrderList(
        object="list",
        data=data,
        first_id=data[0].id if data else None,
        last_id=data[-1].id if data else None,
        has_more=has_more,
    )


@router.get("/dataset-orders/{order_id}", summary="Read an order", **documented())
async def get_order(order_id: OrderId, principal: Customer, state: StateOf) -> DatasetOrder:
    """Return an order with its money, its draw inputs, its progress and its deliveries."""
    return await _shown(state, await find_order(state, principal.account_id, order_id))


@router.post("/dataset-orders/{order_id}/cancel", summary="Cancel an order", **documented(409))
async def cancel_order(order_id: OrderId, principal: Customer, state: StateOf) -> DatasetOrder:
    """Cancel an order; what was verified is delivered and charged. The body is never read."""
    try:
        order = await life.cancel(state.store, principal.account_id, order_id, state.now_ms())
    except GatewayError as error:
        if error.status != 404:
            raise
        raise GatewayError(404, "not_found", "There is no such order.") from error
    return await _shown(state, order)


async def _placed(state: State, account_id: str, quote_id: str, key: str, digest: str) -> Order:
    kept, _ = await find_quote(state.store, account_id, quote_id)
    placement = Placement(
        input_file_id=kept.input_file_id,
        dialect=Dialect.NATIVE,
        completion_window_hours=kept.completion_window_hours,
        metadata=None if kept.grader is None else {GRADER: kept.grader},
        idempotency_key=key,
        body_sha256=digest,
        drawn_seed=state.random_bits(SEED_BITS),
        kept=kept,
    )
    return await place(
        state.store, account_id, read_quote(kept), placement, state.settings.policy, state.now_ms()
    )


async def _shown(state: State, order: Order) -> DatasetOrder:
    (shown,) = await _all_shown(state, [order])
    return shown


async def _all_shown(state: State, orders: Sequence[Order]) -> list[DatasetOrder]:
    queues = await queues_of(state, orders)
    money = await bills(state.store, orders)
    return [
        order_object(
            order,
            await miner_figures(state.store, order.id),
            money[order.id],
            queues.get(order.id),
            await deliveries_of(state.store, order),
            await evaluation_of(state.store.objects, order),
        )
        for order in orders
    ]


def _idempotency_key(values: list[str]) -> str:
    if len(values) != 1 or _KEY.fullmatch(values[0]) is None:
        raise GatewayError(
            400,
            "invalid_idempotency_key",
            "Send Idempotency-Key once: 16 to 80 letters, digits, underscores or hyphens.",
            "Idempotency-Key",
        )
    return values[0]
