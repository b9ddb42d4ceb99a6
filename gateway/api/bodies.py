"""The guard over request bodies: bounded in bytes and time, and in how many arrive at once."""

import asyncio
from collections.abc import Callable
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.errors import GatewayError

# A body may pause this long between two pieces, and must keep up this rate after a first grace.
BODY_PAUSE_SECONDS: Final = 20.0
BODY_GRACE_SECONDS: Final = 30.0
BODY_BYTES_PER_SECOND: Final = 16 * 1024
MAX_BODIES_AT_ONCE: Final = 512
# What a body is taken to have sent already when it begins, so that a new one is not the slowest.
HEAD_START_BYTES: Final = 64 * 1024


class BodyGuard:
    """Bounds every request body in bytes and in time, and how many of them arrive at once.

    Past that number the one that has come the slowest so far is given up: whoever sends bodies
    slowly, to take up the room of others, loses his own.

    Args:
        limit_of: returns the largest body, in bytes, of a request path.
    """

    def __init__(self, app: ASGIApp, limit_of: Callable[[str], int]) -> None:
        self._app = app
        self._limit_of = limit_of
        self._arrivals = Arrivals()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request whose body may be read through the guard only."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limit, declared = self._limit_of(scope["path"]), _declared_length(scope)
        body = _GuardedBody(receive, limit, declared, self._arrivals)
        try:
            await self._app(scope, body.receive, send)
        finally:
            self._arrivals.discard(body)


def _declared_length(scope: Scope) -> int:
    """Return the Content-Length of a request in bytes, 0 where it has none."""
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value)
    return 0


class Arrivals:
    """The bodies that are arriving; past ``MAX_BODIES_AT_ONCE`` the slowest is given up."""

    def __init__(self) -> None:
        self._bodies: set[_GuardedBody] = set()

    def add(self, body: "_GuardedBody") -> None:
        """Take a body in."""
        self._bodies.add(body)
        if len(self._bodies) > MAX_BODIES_AT_ONCE:
            slowest = min(self._bodies, key=_GuardedBody.pace)
            self._bodies.discard(slowest)
            slowest.give_up()

    def discard(self, body: "_GuardedBody") -> None:
        """Let a body go that is complete or given up."""
        self._bodies.discard(body)


class _GuardedBody:
    """One body; it is among ``arrivals`` from the first wait for it until it is complete."""

    def __init__(
        self,
        receive: Receive,
        limit: int,
        declared: int,
        arrivals: "Arrivals",
    ) -> None:
        self._receive = receive
        self._limit = limit
        self._declared = declared
        self._arrivals = arrivals
        self._seen = 0
        self._begun = False
        self._complete = False
        self._given_up = False
        self._timeout: asyncio.Timeout | None = None
        self._started = asyncio.get_running_loop().time()

    def pace(self) -> float:
        """Bytes a second so far."""
        return (self._seen + HEAD_START_BYTES) / (1 + self._elapsed())

    def give_up(self) -> None:
        """End the wait for this body."""
        self._given_up = True
        if self._timeout is not None and not self._timeout.expired():
            self._timeout.reschedule(0)

    async def receive(self) -> Message:
        if self._complete:
            return await self._receive()
        self._check(self._declared)
        if not self._begun:
            self._begun = True
            self._arrivals.add(self)
        message = await self._piece()
        if message["type"] == "http.request":
            self._seen += len(message.get("body", b""))
            self._check(self._seen)
        self._complete = not message.get("more_body", False)
        if self._complete:
            self._arrivals.discard(self)
        return message

    async def _piece(self) -> Message:
        try:
            async with asyncio.timeout(self._patience()) as self._timeout:
                return await self._receive()
        except TimeoutError as error:
            raise self._too_slow() from error
        finally:
            self._timeout = None

    def _too_slow(self) -> GatewayError:
        if not self._given_up:
            return GatewayError(400, "body_too_slow", "The request body stopped arriving.")
        message = "Too many request bodies are arriving, and this one was the slowest."
        return GatewayError(503, "gateway_busy", message, retry_after=5)

    def _check(self, size: int) -> None:
        if size > self._limit:
            raise GatewayError(
                413, "request_too_large", f"The request body is past {self._limit:,} bytes."
            )

    def _elapsed(self) -> float:
        return asyncio.get_running_loop().time() - self._started

    def _patience(self) -> float:
        """Seconds to wait for the next piece; past its due time a body has none left."""
        due = BODY_GRACE_SECONDS + self._seen / BODY_BYTES_PER_SECOND
        left = 0.0 if self._given_up else due - self._elapsed()
        return max(0.0, min(BODY_PAUSE_SECONDS, left))
