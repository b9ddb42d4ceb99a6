"""``/api/v1/dataset-orders/{id}/deliveries``: what was delivered of an order, file by file."""

from typing import Annotated, Any

from fastapi import APIRouter, Request
from fastapi import Path as InPath
from fastapi.responses import Response
from pydantic import ConfigDict
from sqlmodel import col, select

from gateway.api.auth import Customer
from gateway.api.models import ContractObject
from gateway.api.native_documented import DELIVERIES, DOWNLOAD, PREFIX, documented
from gateway.api.native_examples import EXAMPLE_MANIFEST
from gateway.api.native_order_object import Delivery, DeliveryFile
from gateway.api.state import State, StateOf
from gateway.api.transfers import send_object
from gateway.errors import GatewayError
from gateway.orders import reading
from gateway.orders.content import object_key
from gateway.store.engine import Store
from gateway.store.objects import ObjectMissing
from gateway.store.tables import DeliveredFile, FileKind, Order
from protocol.manifest import MANIFEST

router = APIRouter(tags=[DELIVERIES])

OrderId = Annotated[str, InPath(pattern="^[A-Za-z0-9_-]{1,80}$")]
DeliveryId = Annotated[str, InPath(pattern="^[A-Za-z0-9_-]{1,80}$")]
FileName = Annotated[str, InPath(pattern=r"^[a-z0-9-]{1,40}\.(jsonl|json|parquet)$")]
_MEDIA_TYPES = {"json": "application/json", "jsonl": "application/jsonl"}
_BINARY = "application/octet-stream"


async def deliveries_of(store: Store, order: Order) -> list[Delivery]:
    """Return what was delivered of an order, none or one; its files by kind and name."""
    if order.receipts_key is None:
        return []
    async with store.read() as session:
        mine = col(DeliveredFile.order_id) == order.id
        rows = (await session.exec(select(DeliveredFile).where(mine))).all()
    if not rows:
        return []
    delivery_id = f"dl-{order.id}"
    place = f"{PREFIX}/dataset-orders/{order.id}/deliveries/{delivery_id}/files"
    kinds = list(FileKind)
    return [
        Delivery.model_validate(
            {
                "id": delivery_id,
                "object": "delivery",
                "format": order.output_format or "openai_jsonl",
                "files": [
                    DeliveryFile.model_validate(
                        {
                            "name": row.name,
                            "kind": row.kind,
                            "bytes": row.bytes,
                            "sha256": row.sha256,
                            "url": f"{place}/{row.name}",
                        }
                    )
                    for row in sorted(
                        rows, key=lambda row: (kinds.index(FileKind(row.kind)), row.name)
                    )
                ],
            }
        )
    ]


class ManifestObject(ContractObject):
    """``manifest.json``: a statement with the hotkey and the signature of the gateway."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [EXAMPLE_MANIFEST]})

    statement: dict[str, Any]
    gateway: str
    signature: str


@router.head(
    "/dataset-orders/{order_id}/deliveries/{delivery_id}/files/{name}", include_in_schema=False
)
@router.get(
    "/dataset-orders/{order_id}/deliveries/{delivery_id}/files/{name}",
    summary="Download a file of a delivery",
    response_class=Response,
    **documented(416, 429, answers=DOWNLOAD),
)
async def download(
    order_id: OrderId,
    delivery_id: DeliveryId,
    name: FileName,
    request: Request,
    principal: Customer,
    state: StateOf,
) -> Response:
    """Stream a file's bytes, or the range of them that was asked for."""
    order = await find_order(state, principal.account_id, order_id)
    async with state.store.read() as session:
        row = await session.get(DeliveredFile, (order.id, name))
    if row is None or delivery_id != f"dl-{order.id}" or not await _is_there(state, row):
        raise GatewayError(404, "not_found", "There is no such file of this delivery.")
    return _sent(request, state, order.account_id, row)


@router.get(
    "/dataset-orders/{order_id}/manifest",
    summary="Read a delivery's manifest",
    response_model=ManifestObject,
    **documented(),
)
async def get_manifest(order_id: OrderId, principal: Customer, state: StateOf) -> Response:
    """Return the signed manifest of a delivered order."""
    order = await find_order(state, principal.account_id, order_id)
    if order.receipts_key is None:
        raise GatewayError(404, "not_found", "This order has no manifest (yet).")
    async with state.store.read() as session:
        row = await session.get(DeliveredFile, (order.id, MANIFEST))
    key = object_key(order.id, MANIFEST) if row is None else row.object_key
    try:
        content = await state.store.objects.get(key)
    except ObjectMissing as error:
        raise GatewayError(404, "not_found", "This order was delivered without one.") from error
    return Response(content, media_type=_MEDIA_TYPES["json"])


@router.get(
    "/dataset-orders/{order_id}/receipts",
    summary="Download all receipts of an OpenAI batch",
    response_class=Response,
    **documented(416, 429, answers=DOWNLOAD),
)
async def get_receipts(
    order_id: OrderId, request: Request, principal: Customer, state: StateOf
) -> Response:
    """Stream the receipts of a batch, one JSON object a sample."""
    order = await find_order(state, principal.account_id, order_id)
    if order.receipts_key is None:
        raise GatewayError(404, "not_found", "This order has no receipts (yet).")
    if order.output_format is not None:
        message = "The receipts of a native order are files of its delivery."
        raise GatewayError(404, "not_found", message)
    row = DeliveredFile(
        order_id=order.id,
        name=f"receipts-{order.id}.jsonl",
        kind=FileKind.RECEIPTS,
        bytes=await state.store.objects.size(order.receipts_key),
        sha256="",
        object_key=order.receipts_key,
    )
    return _sent(request, state, order.account_id, row)


async def find_order(state: State, account_id: str, order_id: str) -> Order:
    """Return an order of the account, placed through whichever API.

    Raises:
        GatewayError: 404 ``not_found``.
    """
    try:
        return await reading.get_order(state.store, account_id, order_id)
    except GatewayError as error:
        raise GatewayError(404, "not_found", "There is no such order.") from error


async def _is_there(state: State, row: DeliveredFile) -> bool:
    """Say whether a file's bytes are there: those of a batch can be deleted as its files."""
    try:
        return await state.store.objects.size(row.object_key) == row.bytes
    except ObjectMissing:
        return False


def _sent(request: Request, state: State, account_id: str, row: DeliveredFile) -> Response:
    return send_object(
        request,
        state,
        account_id,
        segments=[(row.object_key, row.bytes)],
        # Content never changes once it can be read.
        etag=f'"{row.object_key.rpartition("/")[2]}-{row.order_id}"',
        filename=row.name,
        media_type=_MEDIA_TYPES.get(row.name.rpartition(".")[2], _BINARY),
    )
