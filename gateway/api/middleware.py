"""The edge: request ids, access lines, and a bound on requests at once.

Pure ASGI, so that context variables set here reach every handler and every log line.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from uuid import uuid4

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.api.errors import REQUEST_ID_HEADER, error_response
from gateway.errors import GatewayError

log = structlog.get_logger("gateway.http")

MAX_REQUESTS_AT_ONCE: Final = 512

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
    """Refuses a request while ``limit`` others are at work, before any work is done.

    A request that waits for its client, to send its body or to take its answer, is not at work:
    slow clients take nobody's place. Nor is one that waits within ``request.state.aside()``.
    """

    limit = MAX_REQUESTS_AT_ONCE

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.at_work = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or answer 429."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if self.at_work >= self.limit:
            error = GatewayError(
                429, "rate_limited", "Too many requests at once; try again shortly.", retry_after=1
            )
            await error_response(error)(scope, receive, send)
            return
        visit = _Visit(self, receive, send)
        scope.setdefault("state", {})["aside"] = visit.waiting
        self.at_work += 1
        try:
            await self._app(scope, visit.receive, visit.send)
        finally:
            self.at_work -= 1


class _Visit:
    """One request of a gate, taken out of its count while it waits for its client."""

    def __init__(self, gate: FloodGate, receive: Receive, send: Send) -> None:
        self._gate = gate
        self._receive = receive
        self._send = send
        self._waits = 0
        self._complete = False

    async def receive(self) -> Message:
        if self._complete:
            return await self._receive()
        with self.waiting():
            message = await self._receive()
        self._complete = not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        with self.waiting():
            await self._send(message)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        self._waits += 1
        if self._waits == 1:
            self._gate.at_work -= 1
        try:
            yield
        finally:
            self._waits -= 1
            if self._waits == 0:
                self._gate.at_work += 1
