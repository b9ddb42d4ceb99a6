"""The edge: request ids, access lines, a bound on requests at once, and on every body.

Pure ASGI, so that context variables set here reach every handler and every log line.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final
from uuid import uuid4

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.api.errors import REQUEST_ID_HEADER, error_response
from gateway.errors import GatewayError

log = structlog.get_logger("gateway.http")

MAX_REQUESTS_AT_ONCE: Final = 512
# A body may pause this long between two pieces, and must keep up this rate after a first grace.
BODY_PAUSE_SECONDS: Final = 20.0
BODY_GRACE_SECONDS: Final = 30.0
BODY_BYTES_PER_SECOND: Final = 16 * 1024

# Polling and heart-beats would drown everything else in the log.
_QUIET_METHODS = frozenset({"GET", "HEAD"})
_QUIET_ENDINGS = ("/heartbeat", "/announce", "/leases")


class RequestLog:
    """Gives every request an id, answers it in ``X-Request-ID`` and writes one line a request."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; neither bodies, queries nor keys are logged."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = f"req_{uuid4().hex}"
        scope.setdefault("state", {})["request_id"] = request_id
        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(request_id=request_id)
        header = (REQUEST_ID_HEADER.lower().encode(), request_id.encode())
        started = time.perf_counter()
        status = 500

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": [*message.get("headers", []), header]}
            await send(message)

        try:
            await self._app(scope, receive, send_with_id)
        finally:
            _write_line(scope, status, time.perf_counter() - started)


def _write_line(scope: Scope, status: int, seconds: float) -> None:
    method, path = scope["method"], scope["path"]
    quiet = status < 400 and (method in _QUIET_METHODS or path.endswith(_QUIET_ENDINGS))
    write = log.debug if quiet else log.warning if status >= 500 else log.info
    write("request", method=method, path=path[:200], status=status, ms=round(seconds * 1000, 1))


class FloodGate:
    """Refuses a request while ``limit`` others are being served, before any work is done."""

    limit = MAX_REQUESTS_AT_ONCE

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._serving = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or answer 429."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if self._serving >= self.limit:
            error = GatewayError(
                429, "rate_limited", "Too many requests at once; try again shortly.", retry_after=1
            )
            await error_response(error)(scope, receive, send)
            return
        self._serving += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._serving -= 1


class BodyGuard:
    """Bounds every request body in bytes and in time.

    Args:
        limit_of: returns the largest body, in bytes, of a request path.
    """

    def __init__(self, app: ASGIApp, limit_of: Callable[[str], int]) -> None:
        self._app = app
        self._limit_of = limit_of

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request whose body may be read through the guard only."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body = _GuardedBody(receive, self._limit_of(scope["path"]), _declared_length(scope))
        await self._app(scope, body.receive, send)


def _declared_length(scope: Scope) -> int:
    """Return the Content-Length of a request in bytes, 0 where it has none."""
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value)
    return 0


class _GuardedBody:
    def __init__(self, receive: Receive, limit: int, declared: int) -> None:
        self._receive = receive
        self._limit = limit
        self._declared = declared
        self._seen = 0
        self._complete = False
        self._started = asyncio.get_running_loop().time()

    async def receive(self) -> Message:
        if self._complete:
            return await self._receive()
        self._check(self._declared)
        try:
            async with asyncio.timeout(self._patience()):
                message = await self._receive()
        except TimeoutError as error:
            raise GatewayError(
                400, "body_too_slow", "The request body stopped arriving."
            ) from error
        if message["type"] != "http.request":
            self._complete = True
            return message
        self._seen += len(message.get("body", b""))
        self._complete = not message.get("more_body", False)
        self._check(self._seen)
        return message

    def _check(self, size: int) -> None:
        if size > self._limit:
            raise GatewayError(
                413, "request_too_large", f"The request body is past {self._limit:,} bytes."
            )

    def _patience(self) -> float:
        """Seconds to wait for the next piece; past its due time a body has none left."""
        elapsed = asyncio.get_running_loop().time() - self._started
        due = BODY_GRACE_SECONDS + self._seen / BODY_BYTES_PER_SECOND
        return max(0.0, min(BODY_PAUSE_SECONDS, due - elapsed))
