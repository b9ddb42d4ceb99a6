"""What FastAPI's OpenAPI says of these routes beside their types: answers and raw bodies."""

from typing import Any

from gateway.api.create_batch import ENDPOINTS
from gateway.api.models import Error

INPUT_FILE_ID = "^file-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"

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
    413: "file_too_large: over 32 MiB; use the native multi-part upload.",
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


def multipart_body() -> dict[str, Any]:
    """Return the upload's body, which the route reads itself."""
    schema = {
        "title": "FileUpload",
        "type": "object",
        "required": ["purpose", "file"],
        "properties": {
            "purpose": {"const": "batch"},
            "file": {"type": "string", "contentMediaType": "application/octet-stream"},
        },
    }
    return {
        "requestBody": {"required": True, "content": {"multipart/form-data": {"schema": schema}}}
    }


def create_batch_body() -> dict[str, Any]:
    """Return the body of a create request, which the route checks with codes of its own."""
    metadata = {
        "title": "Metadata",
        "type": ["object", "null"],
        "maxProperties": 16,
        "propertyNames": {"maxLength": 64},
        "additionalProperties": {"type": "string", "maxLength": 512},
    }
    schema = {
        "title": "CreateBatch",
        "type": "object",
        "required": ["input_file_id", "endpoint", "completion_window"],
        "properties": {
            "input_file_id": {"type": "string", "pattern": INPUT_FILE_ID},
            "endpoint": {"enum": list(ENDPOINTS)},
            "completion_window": {"type": "string", "pattern": "^[0-9]{1,3}h$"},
            "metadata": metadata,
        },
    }
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}
