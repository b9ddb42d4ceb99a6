"""``/api/v1/dataset-orders/{id}/lines``: what of an order is verified so far."""

import asyncio
import json
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query
from fastapi.responses import Response
from pydantic import ConfigDict, Field

from gateway.api.auth import Customer
from gateway.api.models import ContractObject
from gateway.api.native_deliveries import OrderId, find_order
from gateway.api.native_documented import ORDERS, documented
from gateway.api.requests import PageLimit, given_once
from gateway.api.state import StateOf
from gateway.errors import GatewayError
from gateway.orders.lines_so_far import BadCursor, Cursor, Page, decoder_of, lines_so_far

router = APIRouter(tags=[ORDERS])


class VerifiedLines(ContractObject):
    """A page of lines, each as OpenAI's batch output has it, in the order of the input.

    Lines without a verified sample are passed over; ask again from the start for what was verified
    meanwhile. ``next`` goes into ``after``, for the lines behind this page. ``has_more`` tells
    that there may be further ones already.
    """

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "object": "list",
                    "data": [
                        {
                            "id": "batch_req_69374be9b8791c7c3f108b2486da314c",
                            "custom_id": "q1",
                            "response": {
                                "status_code": 200,
                                "request_id": "req_a6e648d3f003583ebe552f4f161420cc",
                                "body": {
                                    "id": "chatcmpl-db9a45af06bec49fe2edeb54a62a8e07",
                                    "object": "chat.completion",
                                    "created": 1_762_685_000,
                                    "model": "Qwen/Qwen3-8B",
                                    "choices": [
                                        {
                                            "index": 0,
                                            "message": {"role": "assistant", "content": "Paris"},
                                            "logprobs": None,
                                            "finish_reason": "stop",
                                        }
                                    ],
                                    "usage": {
                                        "prompt_tokens": 24,
                                        "completion_tokens": 2,
                                        "total_tokens": 26,
                                    },
                                },
                            },
                            "error": None,
                        }
                    ],
                    "next": "1-64",
                    "has_more": False,
                }
            ]
        },
    )

    object: Literal["list"]
    data: list[dict[str, Any]]
    next: Annotated[str, Field(pattern="^[0-9]+-[0-9]+$")]
    has_more: bool


@router.get(
    "/dataset-orders/{order_id}/lines",
    summary="Read the verified lines so far",
    response_model=VerifiedLines,
    dependencies=[Depends(given_once("limit", "after"))],
    **documented(400, 422, 429, 503),
)
async def get_lines(
    order_id: OrderId,
    principal: Customer,
    state: StateOf,
    limit: PageLimit = 20,
    after: Annotated[str | None, Query(max_length=40)] = None,
) -> Response:
    """Return lines that have verified samples, while the order runs and after.

    Until it is delivered, a second opinion may still take one back.
    """
    order = await find_order(state, principal.account_id, order_id)
    try:
        cursor = Cursor() if after is None else Cursor.read(after)
        with state.downloads.enter(principal.account_id):
            folder = await state.catalog.folder(order.model, order.revision)
            decoder = await asyncio.to_thread(decoder_of, folder)
            page = await lines_so_far(state.store, order, decoder, cursor, limit)
    except BadCursor as error:
        message = "after must be the next of another page of this order."
        raise GatewayError(400, "invalid_request", message, "after") from error
    return Response(_encoded(page), media_type="application/json")


def _encoded(page: Page) -> bytes:
    """Return a page as JSON; its lines are JSON already."""
    rest = {"next": str(page.after), "has_more": page.more}
    head = b'{"object":"list","data":[' + b",".join(page.lines) + b"],"
    return head + json.dumps(rest, separators=(",", ":")).encode("ascii")[1:]
