"""Reading what a customer's request carries: bodies and query parameters, strictly."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any

from fastapi import Query, Request
from pydantic import BeforeValidator, Field
from pydantic.json_schema import SkipJsonSchema
from starlette.requests import ClientDisconnect

from gateway.errors import GatewayError

FLUSH_BYTES = 1024 * 1024

_INTEGER = re.compile(r"[0-9]{1,9}", re.ASCII)


def check_json(request: Request) -> None:
    """Refuse a body that says to be something else than JSON.

    Raises:
        GatewayError: 415.
    """
    kind = request.headers.get("content-type", "application/json").partition(";")[0]
    if kind.strip().lower() != "application/json":
        raise GatewayError(415, "unsupported_media_type", "Send the body as application/json.")


async def json_bytes(request: Request) -> bytes:
    """Return the raw body of a JSON request.

    Raises:
        GatewayError: 415 for another content type, 400 for a body that ended early.
    """
    check_json(request)
    try:
        return await request.body()
    except ClientDisconnect as error:
        raise _ended_early() from error


async def received_body(request: Request, path: Path) -> int:
    """Write the raw body of a request to a new file and return its size in bytes.

    Raises:
        GatewayError: 400 for a body that ended early.
    """
    size = 0
    with path.open("xb") as file:
        unwritten = bytearray()
        try:
            async for chunk in request.stream():
                size += len(chunk)
                unwritten += chunk
                if len(unwritten) >= FLUSH_BYTES:
                    await asyncio.to_thread(file.write, unwritten)
                    unwritten = bytearray()
        except ClientDisconnect as error:
            raise _ended_early() from error
        await asyncio.to_thread(file.write, unwritten)
    return size


def _ended_early() -> GatewayError:
    return GatewayError(400, "invalid_request", "The request body ended early.")


def given_once(*names: str) -> Callable[[Request], Awaitable[None]]:
    """Return a dependency that refuses a query parameter of ``names`` that is repeated."""

    async def check(request: Request) -> None:
        for name in names:
            if len(request.query_params.getlist(name)) > 1:
                raise GatewayError(400, "invalid_request", f"Give {name} at most once.", name)

    return check


def only_digits(value: Any) -> Any:
    """Refuse, as a validator, a query parameter that is not written in plain digits."""
    # "1.0", " 1" and "1_0" would pass as integers.
    if isinstance(value, str) and _INTEGER.fullmatch(value) is None:
        raise ValueError("must be an integer")
    return value


PageLimit = Annotated[int, Field(ge=1, le=100), BeforeValidator(only_digits), Query()]
Cursor = str | SkipJsonSchema[None]
