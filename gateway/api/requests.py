"""Reading what a customer's request carries: bodies and query parameters, strictly."""

import re
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from fastapi import Query, Request
from pydantic import BeforeValidator, Field
from pydantic.json_schema import SkipJsonSchema
from starlette.requests import ClientDisconnect

from gateway.errors import GatewayError

_INTEGER = re.compile(r"[0-9]{1,9}", re.ASCII)


async def json_bytes(request: Request) -> bytes:
    """Return the raw body of a JSON request.

    Raises:
        GatewayError: 415 for another content type, 400 for a body that ended early.
    """
    kind = request.headers.get("content-type", "application/json").partition(";")[0]
    if kind.strip().lower() != "application/json":
        raise GatewayError(415, "unsupported_media_type", "Send the body as application/json.")
    try:
        return await request.body()
    except ClientDisconnect as error:
        raise GatewayError(400, "invalid_request", "The request body ended early.") from error


def given_once(*names: str) -> Callable[[Request], Awaitable[None]]:
    """Return a dependency that refuses a query parameter of ``names`` that is repeated."""

    async def check(request: Request) -> None:
        for name in names:
            if len(request.query_params.getlist(name)) > 1:
                raise GatewayError(400, "invalid_request", f"Give {name} at most once.", name)

    return check


def _digits(value: Any) -> Any:
    # "1.0", " 1" and "1_0" would pass as integers.
    if isinstance(value, str) and _INTEGER.fullmatch(value) is None:
        raise ValueError("must be an integer of 1 to 100")
    return value


PageLimit = Annotated[int, Field(ge=1, le=100), BeforeValidator(_digits), Query()]
Cursor = str | SkipJsonSchema[None]
