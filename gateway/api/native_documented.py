"""What the native routes' OpenAPI says beside their types."""

from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute

from gateway.api.documented import mend, with_scope
from gateway.api.errors import error_object
from gateway.api.models import Error

PREFIX: Final = "/api/v1"
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
_ALWAYS = (400, 401, 403, 404, 429, 500)

_PREAMBLE = """\
The native routes of Reliquary Batch: uploads in parts, quotes before ordering, orders with their
money and progress, deliveries as JSONL or Parquet, and lines while an order runs. They serve the
same accounts, keys, files and orders as the OpenAI-compatible routes under `/api/openai/v1`.
Every refusal has the shape of `Error`.
"""


DOWNLOAD: Final[dict[int | str, dict[str, Any]]] = {
    status: {
        "description": description,
        "content": {
            kind: {"schema": {"type": "string", "contentMediaType": kind}} for kind in kinds
        },
    }
    for status, description, kinds in (
        (200, "The file.", ("application/jsonl", "application/json", "application/octet-stream")),
        (206, "A byte range of the file.", ("application/octet-stream",)),
    )
}


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
        status: {"model": Error, "description": _REFUSALS[status][3]}
        for status in sorted({*statuses, *_ALWAYS})
    }
    return {"responses": {**(answers or {}), **responses}, "openapi_extra": with_scope(extra)}


def describe_native(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document of the native routes as they are.

    FastAPI leaves out the nulls of examples, which objects here have; so examples are put in last.
    """
    routes = [
        route
        for route in app.routes
        if isinstance(route, APIRoute) and route.path.startswith(PREFIX) and route.include_in_schema
    ]
    document = get_openapi(
        title="Reliquary Batch, native routes",
        version=app.version,
        description=_PREAMBLE,
        routes=routes,
    )
    for schema in document["components"]["schemas"].values():
        schema.pop("examples", None)
    for route in routes:
        for method in route.methods:
            operation = document["paths"][route.path_format][method.lower()]
            operation["operationId"] = _operation_id(route.name)
            _give_examples(operation["responses"], _example_of(route.response_model))
    return mend(document)


def _operation_id(name: str) -> str:
    return "native" + "".join(word.capitalize() for word in name.split("_"))


def _example_of(model: Any) -> Any:
    """Return the example that a model gives of itself, or None."""
    extra = getattr(model, "model_config", {}).get("json_schema_extra")
    return extra["examples"][0] if isinstance(extra, dict) else None


def _give_examples(responses: dict[str, Any], example: Any) -> None:
    for status, response in responses.items():
        content = response.get("content", {}).get("application/json")
        if content is None:
            continue
        if int(status) >= 400:
            content["example"] = _refusal(int(status))
        elif example is not None:
            content["example"] = example


def _refusal(status: int) -> dict[str, Any]:
    code, message, param, _ = _REFUSALS[status]
    return error_object(status, code, message, param)
