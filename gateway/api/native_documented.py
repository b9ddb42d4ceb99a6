"""What the native routes' OpenAPI says beside their types."""

from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from gateway.api.documented import mend, with_scope
from gateway.api.errors import error_object
from gateway.api.models import Error

PREFIX: Final = "/api/v1"
DOCUMENT: Final = f"{PREFIX}/openapi.json"
FILES, QUOTES, ORDERS, DELIVERIES = "Files", "Quotes", "Orders", "Deliveries"

# Code, message and field of a typical refusal, and which codes there are.
_REFUSALS: dict[int, tuple[str, str, str | None, str]] = {
    400: ("invalid_request", "limit: Input should be less than or equal to 100", "limit",
        "A field of the request is out of its range; code and param say which."),
    401: ("invalid_api_key", "Missing or invalid API key.", None, "invalid_api_key."),
    402: ("insufficient_balance", "The balance does not cover the price.", None,
        "insufficient_balance."),
    403: ("insufficient_scope", "This API key does not have orders:write.", None,
        "insufficient_scope, orders_unavailable."),
    404: ("not_found", "There is no such order.", None,
        "not_found, file_not_found, not_available; so for another account's too."),
    409: ("file_not_ready", "The file is still being uploaded; complete it first.",
        "input_file_id", "The state of a file, quote, key or order refuses this; code says which."),
    413: ("request_too_large", "The request body is past 8,388,608 bytes.", None,
        "request_too_large."),
    415: ("unsupported_media_type", "Send the body as application/json.", None,
        "unsupported_media_type."),
    416: ("range_not_satisfiable", "The range lies outside of the file, which has 5 bytes.",
        "Range", "range_not_satisfiable."),
    422: ("mixed_sampling", "All usable lines must have the same top_p.", "input_file_id",
        "The file or the model cannot be used; code says why."),
    429: ("rate_limited", "20 uploads of the account are in progress.", None,
        "order_limit, rate_limited."),
    500: ("server_error", "The gateway failed to answer this request.", None, "server_error."),
    503: ("batch_unavailable", "No worker is free to read the file.", None,
        "A dependency is unavailable; retry shortly."),
}  # fmt: skip
_ALWAYS = (401, 403, 404, 500)

_PREAMBLE = """\
The native routes of Reliquary Batch: uploads in parts, quotes before ordering, orders with their
money and progress, deliveries as JSONL or Parquet, and lines while an order runs. They serve the
same accounts, keys, files and orders as the OpenAI-compatible routes under `/api/openai/v1`.
Every refusal has the shape of `Error`.
"""


def documented(
    *statuses: int,
    extra: dict[str, Any] | None = None,
    answers: dict[int | str, dict[str, Any]] | None = None,
) -> dict[str, Any]:
    """Return what a native route's decorator says of its refusals, and its key's scope.

    Args:
        statuses: of the refusals beyond those of every route.
        extra: further members of its operation.
        answers: what it answers in place of JSON.
    """
    responses = {
        status: {
            "model": Error,
            "description": _REFUSALS[status][3],
            "content": {"application/json": {"example": _example(status)}},
        }
        for status in sorted({*statuses, *_ALWAYS})
    }
    return {"responses": {**(answers or {}), **responses}, "openapi_extra": with_scope(extra)}


def describe_native(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document of the native routes as they are."""
    routes = [route for route in app.routes if getattr(route, "path", "").startswith(PREFIX)]
    document = get_openapi(
        title="Reliquary Batch, native routes",
        version=app.version,
        description=_PREAMBLE,
        routes=routes,
    )
    schemas = document["components"]["schemas"]
    for path in document["paths"].values():
        for operation in path.values():
            _give_example(operation["responses"], schemas)
    return mend(document)


def _example(status: int) -> dict[str, Any]:
    code, message, param, _ = _REFUSALS[status]
    return error_object(status, code, message, param)


def _give_example(responses: dict[str, Any], schemas: dict[str, Any]) -> None:
    """Give a route's answer the example of its schema."""
    content = responses.get("200", {}).get("content", {}).get("application/json")
    if content is None or "$ref" not in content.get("schema", {}):
        return
    schema = schemas[content["schema"]["$ref"].rpartition("/")[2]]
    if "examples" in schema:
        content["example"] = schema["examples"][0]
