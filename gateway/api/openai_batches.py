"""``/api/openai/v1/batches``: create, read, list and cancel."""

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Request

from gateway.api.auth import Customer
from gateway.api.create_batch import (
    parse_create,
    parse_file_id,
    parse_idempotency_key,
    read_object,
)
from gateway.api.documented import CREATE_BATCH_BODY, answers, with_scope
from gateway.api.models import Batch, BatchList
from gateway.api.ordering import (
    all_shown,
    cancel_order,
    create_order,
    find_order,
    page_of_orders,
    shown,
)
from gateway.api.requests import Cursor, PageLimit, given_once, json_bytes
from gateway.api.sources import UploadedFile
from gateway.api.state import StateOf
from gateway.store.tables import Dialect

router = APIRouter(tags=["OpenAI-compatible Batch"])

BatchId = Annotated[str, Path(pattern="^[A-Za-z0-9_-]{1,80}$")]


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
    body = read_object(await json_bytes(request))
    wanted = parse_create(body)
    source = UploadedFile(state, principal.account_id, parse_file_id(body))
    order = await create_order(state, principal.account_id, wanted, source, key, Dialect.OPENAI)
    return await shown(state, order)


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
    rows, has_more = await page_of_orders(state, principal.account_id, limit, after)
    data = await all_shown(state, rows)
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
    return await shown(state, await find_order(state, principal.account_id, batch_id))


@router.post(
    "/batches/{batch_id}/cancel",
    operation_id="openaiCancelBatch",
    summary="Cancel a batch",
    responses=answers(409),
    openapi_extra=with_scope(),
)
async def cancel_batch(batch_id: BatchId, principal: Customer, state: StateOf) -> Batch:
    """Cancel a batch; what was verified is delivered. The body is never read."""
    return await shown(state, await cancel_order(state, principal.account_id, batch_id))
