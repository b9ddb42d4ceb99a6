"""What node and engine process say to each other: JSON objects, each behind its length.

From the node: ``load`` once, then any number of ``generate``; ``cancel`` while one runs.
From the engine: ``loaded``, ``progress``, ``samples``, or ``error`` with its kind.
"""

import asyncio
import json
import select
import socket
from typing import Any

LENGTH_BYTES = 4


def pack(message: dict[str, Any]) -> bytes:
    """Return the bytes of one message."""
    body = json.dumps(message, separators=(",", ":")).encode()
    return len(body).to_bytes(LENGTH_BYTES, "big") + body


async def receive(reader: asyncio.StreamReader) -> dict[str, Any]:
    """Return the next message from an engine process.

    Raises:
        asyncio.IncompleteReadError, ConnectionError: the process is gone.
    """
    length = int.from_bytes(await reader.readexactly(LENGTH_BYTES), "big")
    return json.loads(await reader.readexactly(length))


class Channel:
    """The engine process's end: blocking, used by one thread."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def send(self, message: dict[str, Any]) -> None:
        """Send one message.

        Raises:
            OSError: the node is gone.
        """
        self._connection.sendall(pack(message))

    def receive(self) -> dict[str, Any] | None:
        """Return the next message, waiting for it; None when the node is gone."""
        head = self._exactly(LENGTH_BYTES)
        body = head and self._exactly(int.from_bytes(head, "big"))
        return json.loads(body) if body else None

    def something_waits(self) -> bool:
        """Say whether ``receive`` would return at once."""
        return bool(select.select([self._connection], [], [], 0)[0])

    def _exactly(self, count: int) -> bytes | None:
        data = bytearray()
        while len(data) < count:
            try:
                piece = self._connection.recv(min(count - len(data), 1 << 20))
            except ConnectionError:
                return None
            if not piece:
                return None
            data += piece
        return bytes(data)
