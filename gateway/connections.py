"""HTTP connections with time-outs and limits of ours, on uvicorn's h11 protocol.

uvicorn itself leaves a connection open that sends nothing, or half a request, and answers broken
requests in plain text.
"""

import asyncio
import json
import resource
from typing import Any, Final, cast

import h11
import structlog
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from gateway.api.errors import error_object

log = structlog.get_logger("gateway.http")

# From the opening of a connection, or the first byte of a further request, to its last header.
HEADER_SECONDS: Final = 20.0
# Who was refused in the middle of a body may send the rest for this long, which nobody reads.
LINGER_SECONDS: Final = 30.0
# A client that takes nothing of its answer for this long is given up.
STALL_SECONDS: Final = 120.0
MAX_CONNECTIONS: Final = 4_096
MAX_HEADER_BYTES: Final = 32 * 1024
# Files that the gateway needs beside its connections: objects, databases, pipes to its workers.
SPARE_FILES: Final = 512


class Connections(ServerState):
    """What a server knows of its connections; ``idle`` are those without a request at work.

    The one that has been idle the longest comes first.
    """

    def __init__(self) -> None:
        super().__init__()
        self.idle: dict[BoundedProtocol, None] = {}


class _LastingTransport:
    """A transport whose ``close`` is its protocol's; all else is the transport's own."""

    def __init__(self, transport: asyncio.Transport, protocol: "BoundedProtocol") -> None:
        self._transport = transport
        self._protocol = protocol

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def is_closing(self) -> bool:
        """Say whether it is closed, or takes no further request."""
        return self._protocol.lingers or self._transport.is_closing()

    def close(self) -> None:
        """Close it, but not on a client that is still sending its body."""
        if not self.is_closing():
            self._protocol.end(self._transport)


class BoundedProtocol(H11Protocol):
    """One connection, closed when it idles before a request or reads nothing.

    Where there are too many, the one that has been idle the longest gives way to a new one: who
    opens thousands and sends nothing keeps nobody out.
    """

    lingers = False
    _header_timer: asyncio.TimerHandle | None = None
    _stall_timer: asyncio.TimerHandle | None = None
    _linger_timer: asyncio.TimerHandle | None = None

    @property
    def _idle(self) -> "dict[BoundedProtocol, None]":
        return cast(Connections, self.server_state).idle

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Start the clock of the first request."""
        super().connection_made(cast(asyncio.Transport, _LastingTransport(transport, self)))
        self._idle[self] = None
        if len(self.connections) > MAX_CONNECTIONS:
            longest = next(iter(self._idle))
            del self._idle[longest]
            longest.transport.abort()
        if not transport.is_closing():
            self._watch_header()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clocks."""
        self._idle.pop(self, None)
        self._stop_watching()
        self._stop_stalling()
        if self._linger_timer is not None:
            self._linger_timer.cancel()
        super().connection_lost(exc)

    def end(self, transport: asyncio.Transport) -> None:
        """Close a connection once its client has sent its body, or for long enough.

        Where unread bytes are left at the closing, the system resets the connection, and with that
        the client loses the answer that told it why.
        """
        if self.conn.their_state is not h11.SEND_BODY or not transport.can_write_eof():
            transport.close()
            return
        self.lingers = True
        self._idle[self] = None
        transport.write_eof()
        self.flow.resume_reading()
        self._linger_timer = self.loop.call_later(LINGER_SECONDS, transport.abort)

    def shutdown(self) -> None:
        """End the connection for the server's end."""
        if self.lingers:
            self.transport.abort()
        else:
            super().shutdown()

    def data_received(self, data: bytes) -> None:
        """Handle bytes; between requests they start the clock, a complete head stops it."""
        if self.lingers:
            return
        super().data_received(data)
        if self.transport.is_closing() or self._is_serving():
            self._idle.pop(self, None)
            self._stop_watching()
        elif self._header_timer is None:
            self._watch_header()

    def on_response_complete(self) -> None:
        """Note that the connection is idle, unless a further request came already."""
        super().on_response_complete()
        if not self.transport.is_closing() and not self._is_serving():
            self._idle[self] = None

    def pause_writing(self) -> None:
        """Start the clock of a client that does not read."""
        super().pause_writing()
        self._stop_stalling()
        self._stall_timer = self.loop.call_later(STALL_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """Stop the clock: the client has read."""
        self._stop_stalling()
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP request in the shape of every other error."""
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.abort()
            return
        content = error_object(400, "invalid_request", "This is not a valid HTTP request.", None)
        body = json.dumps(content).encode()
        headers = [
            ("content-type", "application/json"),
            ("content-length", str(len(body))),
            ("connection", "close"),
        ]
        events = (
            h11.Response(status_code=400, headers=headers, reason=b"Bad Request"),
            h11.Data(data=body),
            h11.EndOfMessage(),
        )
        for event in events:
            self.transport.write(self.conn.send(cast(Any, event)) or b"")
        self.transport.close()

    def _is_serving(self) -> bool:
        # uvicorn sets the cycle with the first request.
        cycle = cast(Any, self.cycle)
        return cycle is not None and not cycle.response_complete

    def _watch_header(self) -> None:
        self._header_timer = self.loop.call_later(HEADER_SECONDS, self.transport.abort)

    def _stop_watching(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def _stop_stalling(self) -> None:
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None


def make_room() -> None:
    """Let this process open as many files as its connections take, as far as the system allows."""
    wanted = MAX_CONNECTIONS + SPARE_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < wanted:
        log.warning("few open files are allowed; raise it with ulimit -n", allowed=hard, use=wanted)
        wanted = hard
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
