"""``/api/v1``: the native view of an order, and what can be ordered."""

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Path
from fastapi.responses import Response, StreamingResponse

from gateway.api.auth import Customer
from gateway.api.state import State, StateOf
from gateway.errors import GatewayError
from gateway.figures import miner_figures
from gateway.files import pieces
from gateway.orders import reading
from gateway.orders.content import object_key
from gateway.store.objects import ObjectMissing
from gateway.store.tables import Order
from protocol.manifest import MANIFEST

router = APIRouter(prefix="/api/v1", include_in_schema=False)

OrderId = Annotated[str, Path(pattern="^[A-Za-z0-9_-]{1,80}$")]


@router.get("/generation/catalog")
async def catalog(state: StateOf) -> dict[str, Any]:
    """List the supported architectures (``config.json``'s ``architectures[0]``)."""
    return {"architectures": list(await state.capacity.supported(state.now_ms()))}


@router.get("/dataset-orders/{order_id}")
async def get_order(order_id: OrderId, principal: Customer, state: StateOf) -> dict[str, Any]:
    """Return an order with its draw inputs, progress and audit figures."""
    order = await _find(state, principal.account_id, order_id)
    miners = await miner_figures(state.store, order.id)
    return {
        "id": order.id,
        "object": "dataset_order",
        "batch_id": f"batch_{order.id}",
        "status": order.status,
        "created_at": order.created_at_ms // 1000,
        "expires_at": order.expires_at_ms // 1000,
        "model": order.model,
        "revision": order.revision,
        "architecture": order.architecture,
        "seed": order.seed,
        "seed_drawn": order.seed_drawn,
        "sampling": {
            "temperature": order.temperature,
            "top_p": order.top_p,
            "top_k": order.top_k,
            "min_p": order.min_p,
            "max_tokens": order.max_tokens,
        },
        "n": order.n,
        "progress": {
            "lines_total": order.lines_total,
            "lines_refused": order.lines_refused,
            "lines_completed": order.lines_completed,
            "samples_total": order.samples_total,
            "samples_verified": order.samples_verified,
            "samples_void": order.samples_void,
            "samples_missing": order.samples_missing,
            "prompt_tokens": order.prompt_tokens,
            "tokens_verified": order.tokens_verified,
        },
        "miners": [asdict(figures) for figures in miners],
        "output_file_id": order.output_file_id,
        "error_file_id": order.error_file_id,
        "receipts": order.receipts_key is not None,
    }


@router.get("/dataset-orders/{order_id}/manifest")
async def get_manifest(order_id: OrderId, principal: Customer, state: StateOf) -> Response:
    """Return the signed manifest of a delivered order."""
    order = await _find(state, principal.account_id, order_id)
    if order.receipts_key is None:
        raise GatewayError(404, "not_found", "This order has no manifest (yet).")
    try:
        content = await state.store.objects.get(object_key(order.id, MANIFEST))
    except ObjectMissing as error:
        raise GatewayError(404, "not_found", "This order was delivered without one.") from error
    return Response(content, media_type="application/json")


@router.get("/dataset-orders/{order_id}/receipts")
async def get_receipts(order_id: OrderId, principal: Customer, state: StateOf) -> Response:
    """Stream the receipts of a delivered order, one JSON object a sample."""
    order = await _find(state, principal.account_id, order_id)
    if order.receipts_key is None:
        raise GatewayError(404, "not_found", "This order has no receipts (yet).")
    size = await state.store.objects.size(order.receipts_key)
    headers = {
        "Content-Length": str(size),
        "Content-Disposition": f'attachment; filename="receipts-{order.id}.jsonl"',
    }
    return StreamingResponse(
        pieces(state.store, order.receipts_key, 0, size),
        headers=headers,
        media_type="application/jsonl",
    )


async def _find(state: State, account_id: str, order_id: str) -> Order:
    try:
        return await reading.get_order(state.store, account_id, order_id)
    except GatewayError as error:
        raise GatewayError(404, "not_found", "There is no such order.") from error
