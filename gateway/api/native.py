"""``/api/v1``: what can be ordered, and the document of the native routes."""

from typing import Annotated

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from pydantic import ConfigDict, Field

from gateway.api.models import ContractObject
from gateway.api.native_documented import ORDERS, describe_native, documented
from gateway.api.state import StateOf

router = APIRouter()


class CatalogObject(ContractObject):
    """What can be ordered: public models of these architectures."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"architectures": ["Qwen3ForCausalLM"]}]}
    )

    architectures: Annotated[
        list[str], Field(description="Of config.json, the first of its architectures.")
    ]


@router.get(
    "/generation/catalog",
    tags=[ORDERS],
    summary="List the supported architectures",
    responses=documented(503)["responses"],
)
async def catalog(state: StateOf) -> CatalogObject:
    """List the supported architectures; no key is needed."""
    return CatalogObject(architectures=list(await state.capacity.supported(state.now_ms())))


@router.get("/openapi.json", include_in_schema=False)
async def openapi(request: Request) -> JSONResponse:
    """Return the OpenAPI document of the native routes; no key is needed."""
    return JSONResponse(describe_native(request.app))
