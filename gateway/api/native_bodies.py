"""Bodies of the native routes: one model each, which checks them and documents them."""

from collections.abc import Mapping
from typing import Any, TypeVar

from fastapi import Request
from pydantic import BaseModel, ConfigDict, ValidationError

from gateway.api.create_batch import read_object
from gateway.api.plain import plain
from gateway.api.requests import json_bytes
from gateway.errors import GatewayError

B = TypeVar("B", bound="Body")


class Body(BaseModel):
    """Base of all bodies: a member that is not known is refused, for it may be misspelled."""

    model_config = ConfigDict(extra="forbid", frozen=True)


async def read_body(
    request: Request, kind: type[B], codes: Mapping[str, tuple[int, str]] | None = None
) -> B:
    """Return the body of a request.

    Args:
        kind: what it must be.
        codes: status and code of the fields whose refusal is not 400 ``invalid_request``.

    Raises:
        GatewayError: 415, or the refusal of the first field that is out of its range.
    """
    value = read_object(await json_bytes(request))
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        raise _refusal(error, codes or {}) from error


def _refusal(error: ValidationError, codes: Mapping[str, tuple[int, str]]) -> GatewayError:
    first = error.errors(include_input=False, include_url=False)[0]
    place = ".".join(str(part) for part in first["loc"])[:80]
    status, code = codes.get(place, (400, "invalid_request"))
    return GatewayError(status, code, f"{place}: {plain(first)}", place or None)


def documented_body(kind: type[Body]) -> dict[str, Any]:
    """Return what the document says of a route that reads ``kind`` by itself.

    The schema is written out in the place, for the framework collects those of its own alone.
    """
    schema = kind.model_json_schema(ref_template="#/components/schemas/{model}")
    content: dict[str, Any] = {"schema": schema}
    examples = schema.pop("examples", None)
    if examples:
        content["example"] = examples[0]
    return {"requestBody": {"required": True, "content": {"application/json": content}}}
