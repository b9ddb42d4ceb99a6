"""What FastAPI's OpenAPI says of the customers' routes beside their types."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from gateway.api.create_batch import ENDPOINTS
from gateway.api.models import METADATA_SCHEMA, UUID, Error
from gateway.api_keys import ORDERS_WRITE

NATIVE = "/api/v1/"
_ALWAYS = (401, 403, 404, 500)
_DESCRIPTIONS = {
    400: "A field of the request is out of its range; code and param say which.",
    401: "invalid_api_key: missing or invalid API key.",
    402: "price_above_max, insufficient_balance.",
    403: "insufficient_scope: the key lacks orders:write; orders_unavailable: the account does "
    "not have dataset access.",
    404: "not_available (batches disabled on this deployment), file_not_found, batch_not_found "
    "or not_found.",
    409: "The state of a file, key or batch refuses this; code says which.",
    411: "length_required: send Content-Length.",
    413: "file_too_large: past the largest upload of this route.",
    422: "The file or the model cannot be used; code says why.",
    429: "order_limit, rate_limited.",
    500: "server_error.",
    503: "A dependency is unavailable; retry shortly.",
}


def answers(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the documented refusals of a route: ``statuses`` and those of every route."""
    return {
        status: {"model": Error, "description": _DESCRIPTIONS[status]}
        for status in sorted({*statuses, *_ALWAYS})
    }


def with_scope(extra: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return what the document says of a customers' route beyond FastAPI's own knowledge."""
    return {"x-required-api-key-scope": ORDERS_WRITE, **(extra or {})}


def describe(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document of the routes of both OpenAI dialects as they are."""
    routes = [route for route in app.routes if not getattr(route, "path", "").startswith(NATIVE)]
    return mend(get_openapi(title=app.title, version=app.version, routes=routes))


def mend(document: dict[str, Any]) -> dict[str, Any]:
    """Return a document of FastAPI's without what is never answered, and with request ids.

    FastAPI adds a 422 of its own shape to every route with parameters, and knows nothing of the
    request id that every JSON answer carries.
    """
    for path in document["paths"].values():
        for operation in path.values():
            _mend(operation["responses"])
    for name in ("HTTPValidationError", "ValidationError"):
        document["components"]["schemas"].pop(name, None)
    document["components"]["headers"] = {
        "RequestId": {"description": "Safe request reference.", "schema": {"type": "string"}}
    }
    return document


def _mend(responses: dict[str, Any]) -> None:
    if "HTTPValidationError" in str(responses.get("422", "")):
        del responses["422"]
    for response in responses.values():
        if "application/json" in response.get("content", {}):
            response["headers"] = {"X-Request-ID": {"$ref": "#/components/headers/RequestId"}}


UPLOAD_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["purpose", "file"],
                    "properties": {
                        "purpose": {"const": "batch"},
                        "file": {
                            "type": "string",
                            "contentMediaType": "application/octet-stream",
                        },
                    },
                }
            }
        },
    }
}

CONTENT_ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "File bytes.",
        "content": {
            "application/jsonl": {"schema": {"type": "string"}},
            "application/octet-stream": {
                "schema": {"type": "string", "contentMediaType": "application/octet-stream"}
            },
        },
    },
    206: {
        "description": "A byte range of a file.",
        "headers": {"Content-Range": {"schema": {"type": "string"}}},
        "content": {
            "application/octet-stream": {
                "schema": {"type": "string", "contentMediaType": "application/octet-stream"}
            }
        },
    },
}


def _create_body(required: list[str], **properties: dict[str, Any]) -> dict[str, Any]:
    schema = {
        "type": "object",
        "required": required,
        "properties": {
            **properties,
            "endpoint": {"enum": list(ENDPOINTS)},
            "completion_window": {"type": "string", "pattern": "^[0-9]{1,3}h$"},
            "metadata": METADATA_SCHEMA,
        },
    }
    return {
        "parameters": [
            {
                "name": "Idempotency-Key",
                "in": "header",
                "required": False,
                "schema": {"type": "string", "pattern": "^[A-Za-z0-9_.:-]{16,80}$"},
            }
        ],
        "requestBody": {"required": True, "content": {"application/json": {"schema": schema}}},
    }


_FILE_ID = {"type": "string", "pattern": rf"^file-{UUID}$"}

CREATE_BATCH_BODY = _create_body(
    ["input_file_id", "endpoint", "completion_window"], input_file_id=_FILE_ID
)
OPENRELAY_CREATE_BODY = _create_body(
    ["endpoint", "completion_window"],
    input_file_id=_FILE_ID,
    requests={
        "type": "array",
        "items": {"type": "object"},
        "minItems": 1,
        "maxItems": 50_000,
        "description": "In place of input_file_id; each may omit method and url.",
    },
    model={"type": "string", "description": "The model where no request names one."},
)
