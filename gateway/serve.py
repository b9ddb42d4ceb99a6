"""Serving the gateway: uvicorn with limits, ended by SIGTERM or SIGINT."""

import asyncio
import contextlib
import signal
import socket
import time
from collections.abc import Generator
from contextlib import aclosing
from pathlib import Path
from typing import cast

import structlog
import uvicorn
from fastapi import FastAPI
from sqlalchemy.exc import SQLAlchemyError

from gateway.app import create_app
from gateway.connections import MAX_HEADER_BYTES, BoundedProtocol, Connections, make_room
from gateway.memory import give_back_freed, keep_what_is_there
from gateway.settings import GatewaySettings
from protocol.chain.base import Chain, ChainError
from protocol.keys import HotkeyError

log = structlog.get_logger("gateway")

KEEP_ALIVE_SECONDS = 15
GRACEFUL_SECONDS = 5
BACKLOG = 1_024


class ServeError(RuntimeError):
    """The gateway could not start; what was logged before says why."""


class Server(uvicorn.Server):
    """uvicorn's server, which leaves signals to whoever runs it."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.server_state = Connections()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Change no signal handler."""
        yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Send those away that wait for work, then end as uvicorn does."""
        cast(FastAPI, self.config.app).state.gateway.waiting.close()
        await super().shutdown(sockets)

    def stop(self) -> None:
        """Take no more connections and end once the requests in flight are answered."""
        self.should_exit = True


def make_server(app: FastAPI) -> Server:
    """Return a server for ``app`` whose connections are bounded in time, number and size."""
    config = uvicorn.Config(
        app,
        http=BoundedProtocol,
        ws="none",
        # The parts are opened around the server, so that what keeps them closed is told plainly.
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=GRACEFUL_SECONDS,
        h11_max_incomplete_event_size=MAX_HEADER_BYTES,
    )
    return Server(config)


def serve(settings: GatewaySettings, chain: Chain | None = None) -> None:
    """Serve until SIGTERM or SIGINT.

    Args:
        chain: who is registered; None opens the one of the settings.

    Raises:
        ServeError: the gateway could not start; the message says why.
    """
    try:
        _make_folder(settings.data)
        chain = settings.chain.open(time.time) if chain is None else chain
        asyncio.run(_serve(settings, chain))
    except (ChainError, HotkeyError, SQLAlchemyError, OSError, ValueError) as error:
        raise ServeError(f"the gateway could not start: {error}") from error


async def _serve(settings: GatewaySettings, chain: Chain) -> None:
    make_room()
    give_back_freed()
    app = create_app(settings, chain=chain)
    server = make_server(app)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, server.stop)
    async with aclosing(chain), app.router.lifespan_context(app):
        listener = _listen(settings)
        host, port = listener.getsockname()[:2]
        keep_what_is_there()
        log.info("gateway ready", url=f"http://{host}:{port}")
        await server.serve([listener])
    log.info("gateway stopped")


def _make_folder(data: Path) -> None:
    try:
        data.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ServeError(
            f"{data} cannot be the data folder ({error.strerror}); choose another with --data"
        ) from error


def _listen(settings: GatewaySettings) -> socket.socket:
    try:
        return listen(settings.host, settings.port)
    except OSError as error:
        # The system's words come with the address again in parentheses.
        reason = (error.strerror or str(error)).partition(" (")[0]
        raise ServeError(
            f"cannot serve on {settings.host} port {settings.port} ({reason}); "
            "choose others with --host and --port"
        ) from error


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 takes a free one.

    Raises:
        OSError: the address cannot be had.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=BACKLOG)
