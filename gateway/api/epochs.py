"""``/api/v1/epochs``: the public record, for everybody and without a key."""

from typing import Annotated

from fastapi import APIRouter, Path, Query
from fastapi.responses import Response
from sqlmodel import col, select

from gateway.api.state import StateOf
from gateway.errors import GatewayError
from gateway.store.tables import Epoch
from protocol.epochs import EpochList, EpochSummary

router = APIRouter(prefix="/api/v1/epochs", include_in_schema=False)

MOST_LISTED = 1_000
# A record never changes.
FOR_GOOD = {"Cache-Control": "public, max-age=31536000, immutable"}

Number = Annotated[int, Path(ge=0, lt=2**53)]


@router.get("")
async def list_epochs(
    state: StateOf, limit: Annotated[int, Query(ge=1, le=MOST_LISTED)] = MOST_LISTED
) -> Response:
    """List the newest records, ascending."""
    statement = select(Epoch).order_by(col(Epoch.number).desc()).limit(limit)
    async with state.store.read() as session:
        rows = (await session.exec(statement)).all()
    epochs = [
        EpochSummary(number=row.number, digest=row.digest, block=row.block)
        for row in reversed(rows)
    ]
    content = EpochList(epochs=epochs).model_dump_json()
    return Response(content, media_type="application/json")


@router.get("/{number}")
async def get_epoch(number: Number, state: StateOf) -> Response:
    """Return the record of an epoch as it was signed."""
    async with state.store.read() as session:
        row = await session.get(Epoch, number)
    if row is None:
        raise GatewayError(404, "not_found", "There is no record of this epoch (yet).")
    content = await state.store.objects.get(row.object_key)
    return Response(content, headers=FOR_GOOD, media_type="application/json")
