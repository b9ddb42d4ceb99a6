"""``/v1/batches`` and ``/v1/models``: OpenRelay's Batches API over the same orders."""

from fastapi import APIRouter, Depends, Request

from gateway.api.auth import OpenRelayCustomer
from gateway.api.create_batch import (
    has_inline_requests,
    parse_file_id,
    parse_idempotency_key,
    parse_openrelay_create,
    read_object,
)
from gateway.api.documented import OPENRELAY_CREATE_BODY, answers, with_scope
from gateway.api.openai_batches import BatchId
from gateway.api.openrelay_objects import (
    Model,
    ModelList,
    OpenRelayBatch,
    OpenRelayBatchList,
    openrelay_batch,
    page_ends,
)
from gateway.api.ordering import (
    all_shown,
    cancel_order,
    create_order,
    find_order,
    page_of_orders,
    shown,
)
from gateway.api.requests import Cursor, PageLimit, given_once
from gateway.api.sources import InlineRequests, UploadedFile, received_create
from gateway.api.state import State, StateOf
from gateway.ledger.charges import bills
from gateway.orders.nodes import served_models
from gateway.store.tables import Dialect, Order

router = APIRouter(tags=["Batches"])


@router.post(
    "/batches",
    operation_id="createBatch",
    summary="Create a batch inference job",
    responses=answers(400, 402, 409, 413, 422, 429, 503),
    openapi_extra=with_scope(OPENRELAY_CREATE_BODY),
)
async def create_batch(
    request: Request, principal: OpenRelayCustomer, state: StateOf
) -> OpenRelayBatch:
    """Order a batch on an uploaded file or on inline requests."""
    account_id = principal.account_id
    key = parse_idempotency_key(request.headers.getlist("idempotency-key"))
    async with received_create(request, state, account_id) as (split, items):
        body = read_object(split.rest)
        wanted = parse_openrelay_create(body)
        if has_inline_requests(body, split.requests):
            source = InlineRequests(state, account_id, items, wanted.endpoint)
        else:
            source = UploadedFile(state, account_id, parse_file_id(body))
        order = await create_order(state, account_id, wanted, source, key, Dialect.OPENRELAY)
    return await _shown(state, order)


@router.get(
    "/batches",
    operation_id="listBatches",
    summary="List batches, newest first",
    responses=answers(400),
    openapi_extra=with_scope(),
    dependencies=[Depends(given_once("limit", "after"))],
)
async def list_batches(
    principal: OpenRelayCustomer, state: StateOf, limit: PageLimit = 20, after: Cursor = None
) -> OpenRelayBatchList:
    """Return a page of batches, newest first."""
    rows, has_more = await page_of_orders(state, principal.account_id, limit, after)
    batches = await all_shown(state, rows)
    known = await bills(state.store, rows)
    data = [
        openrelay_batch(batch, row, known[row.id]) for batch, row in zip(batches, rows, strict=True)
    ]
    ends = page_ends([batch.id for batch in data])
    return OpenRelayBatchList(object="list", data=data, has_more=has_more, **ends)


@router.get(
    "/batches/{batch_id}",
    operation_id="getBatch",
    summary="Get a batch by id",
    responses=answers(),
    openapi_extra=with_scope(),
)
async def get_batch(
    batch_id: BatchId, principal: OpenRelayCustomer, state: StateOf
) -> OpenRelayBatch:
    """Return a batch."""
    return await _shown(state, await find_order(state, principal.account_id, batch_id))


@router.post(
    "/batches/{batch_id}/cancel",
    operation_id="cancelBatch",
    summary="Cancel a running batch",
    responses=answers(409, 503),
    openapi_extra=with_scope(),
)
async def cancel_batch(
    batch_id: BatchId, principal: OpenRelayCustomer, state: StateOf
) -> OpenRelayBatch:
    """Cancel a batch; what was verified is delivered. The body is never read."""
    return await _shown(state, await cancel_order(state, principal.account_id, batch_id))


@router.get(
    "/models",
    operation_id="listModels",
    summary="List the models that live nodes serve",
    responses=answers(),
    openapi_extra=with_scope(),
)
async def list_models(principal: OpenRelayCustomer, state: StateOf) -> ModelList:
    """Return what miners hold at present; other models can be ordered too."""
    served = await served_models(state.store, state.settings.policy, state.now_ms())
    data = [
        Model(id=name, object="model", created=at_ms // 1000, owned_by=name.partition("/")[0])
        for name, at_ms in served.items()
    ]
    return ModelList(object="list", data=data)


async def _shown(state: State, order: Order) -> OpenRelayBatch:
    known = await bills(state.store, [order])
    return openrelay_batch(await shown(state, order), order, known[order.id])
