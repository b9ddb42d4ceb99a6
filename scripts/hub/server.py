"""The hub as a process of its own, or as a thread of a test."""

import socket
from pathlib import Path
from threading import Thread
from typing import Self

import uvicorn

from scripts.hub.app import create_app
from scripts.hub.store import HubError, publish_all

HOST = "127.0.0.1"
KEEP_ALIVE_S = 30


class HubServer:
    """The hub over ``folder`` in a thread, from ``with`` to its end.

    Args:
        folder: the hub's folder; every ``<org>/<name>/`` in it is published first.
        port: 0 takes a free one.
        tokens: bearer tokens that see private repositories and download gated ones.
    """

    def __init__(self, folder: Path, port: int = 0, tokens: frozenset[str] = frozenset()) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        publish_all(folder)
        self._server = uvicorn.Server(_configuration(folder, HOST, port, tokens))
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind((HOST, port))
        self._socket.listen()
        self._thread = Thread(target=self._run, name="hub", daemon=True)

    @property
    def url(self) -> str:
        """Return what ``HF_ENDPOINT`` should be; connections wait until the thread runs."""
        return f"http://{HOST}:{self._socket.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()

    def _run(self) -> None:
        self._server.run(sockets=[self._socket])


def serve(folder: Path, host: str = HOST, port: int = 8790) -> None:
    """Serve ``folder`` until a signal ends the process; its models are published first.

    Prints what ``HF_ENDPOINT`` should be once it serves.

    Raises:
        HubError: the folder or the address cannot be used, or a model cannot be published.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise HubError(
            f"{folder} cannot be the hub's folder ({error.strerror}); choose another with --data"
        ) from error
    publish_all(folder)
    try:
        listener = socket.create_server((host, port))
    except OSError as error:
        # The system's words come with the address again in parentheses.
        reason = (error.strerror or str(error)).partition(" (")[0]
        raise HubError(
            f"cannot serve on {host} port {port} ({reason}); choose others with --host and --port"
        ) from error
    with listener:
        print(f"HF_ENDPOINT=http://{host}:{listener.getsockname()[1]}", flush=True)
        uvicorn.Server(_configuration(folder, host, port, frozenset())).run(sockets=[listener])


def _configuration(folder: Path, host: str, port: int, tokens: frozenset[str]) -> uvicorn.Config:
    return uvicorn.Config(
        create_app(folder, tokens),
        host=host,
        port=port,
        log_level="warning",
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=2,
    )
