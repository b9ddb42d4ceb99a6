"""One connection to a node of the Bittensor network that never makes its user wait for ever.

The client reconnects by itself while requests are answered with errors; what it cannot see is a
socket that takes requests and answers none. So every use has a time-out, and whatever fails drops
the connection: the next use begins with a new one.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar, cast

# Everything of the client that is not public is used here alone; bittensor is pinned exactly.
from bittensor._substrate import RpcSubstrate, Substrate
from bittensor._transport import SubstrateConnection
from bittensor._transport.errors import SubstrateRequestException
from bittensor.client import Client
from bittensor.result import BittensorError
from bittensor.settings import (
    SS58_FORMAT,
    default_archive_endpoints,
    default_fallback_endpoints,
    resolve_endpoint,
)
from websockets.exceptions import WebSocketException

from protocol.chain.base import ChainError, StaleHead

# Silence on a connection with requests pending, after which the client reconnects by itself.
SILENCE_SECONDS = 10.0
# Tries of each endpoint before the next one.
RETRIES = 2
CLOSE_SECONDS = 5.0

Answer = TypeVar("Answer")

# What the client raises: its own errors, and bare ones for storage that a runtime does not have and
# for answers that are not what it expects.
CLIENT_ERRORS = (
    BittensorError,
    SubstrateRequestException,
    WebSocketException,
    OSError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
)


class _Substrate(RpcSubstrate):
    """The client's transport, with connections that notice silence and can all be closed."""

    def __init__(self, network: str) -> None:
        label, endpoint = resolve_endpoint(network)
        super().__init__(
            endpoint,
            fallback_endpoints=[
                url for url in default_fallback_endpoints(label) if url != endpoint
            ],
            archive_endpoints=default_archive_endpoints(label),
        )
        self._opened: list[SubstrateConnection] = []

    def _interface(self, endpoint: str, fallbacks: list[str]) -> SubstrateConnection:
        connection = SubstrateConnection(
            endpoint,
            ss58_format=SS58_FORMAT,
            fallback_urls=fallbacks,
            max_retries=RETRIES,
            response_timeout=SILENCE_SECONDS,
        )
        self._opened.append(connection)
        return connection

    async def close_all(self) -> None:
        """Close every connection, those too whose opening was given up."""
        for connection in self._opened:
            with suppress(TimeoutError, *CLIENT_ERRORS):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await connection.close()


class Link:
    """A connection that is opened at the first use and anew after every failure.

    Args:
        network: ``finney``, ``test``, ``local``, or a ``ws://`` or ``wss://`` address.

    Raises:
        ChainError: there is no such network.
    """

    def __init__(self, network: str) -> None:
        try:
            resolve_endpoint(network)
        except ValueError as error:
            raise ChainError(str(error)) from error
        self._network = network
        self._substrate: _Substrate | None = None
        self._opening = asyncio.Lock()
        self._closing: set[asyncio.Task[None]] = set()

    async def use(
        self,
        what: str,
        operation: Callable[[Client, RpcSubstrate], Awaitable[Answer]],
        seconds: float,
    ) -> Answer:
        """Return what ``operation`` answers, within ``seconds``.

        Args:
            what: for the error's message, such as "read the head".
            operation: what is done with the client and its transport.

        Raises:
            ChainError: it failed, or was not answered in time. Those that ``operation`` raises
                itself pass unchanged.
        """
        substrate: _Substrate | None = None
        try:
            async with asyncio.timeout(seconds):
                substrate = await self._connected()
                client = Client(self._network, substrate=cast(Substrate, substrate))
                return await operation(client, substrate)
        except StaleHead:
            # Another connection to the same address may end at another node.
            self._drop(substrate)
            raise
        except TimeoutError as error:
            self._drop(substrate)
            raise ChainError(
                f"cannot {what}: the chain's node at {self._network} did not answer within "
                f"{seconds:.0f} s"
            ) from error
        except CLIENT_ERRORS as error:
            self._drop(substrate)
            raise ChainError(f"cannot {what} at {self._network}: {_text(error)}") from error

    async def close(self) -> None:
        """Close the connection; a later use opens a new one."""
        self._drop(self._substrate)
        if self._closing:
            await asyncio.wait(self._closing)

    async def _connected(self) -> _Substrate:
        async with self._opening:
            if self._substrate is None:
                substrate = _Substrate(self._network)
                try:
                    await substrate.connect()
                except BaseException:
                    self._close(substrate)
                    raise
                self._substrate = substrate
            return self._substrate

    def _drop(self, substrate: _Substrate | None) -> None:
        # Another use may have opened a new one already.
        if substrate is not None and substrate is self._substrate:
            self._substrate = None
            self._close(substrate)

    def _close(self, substrate: _Substrate) -> None:
        task = asyncio.create_task(substrate.close_all())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


def _text(error: BaseException) -> str:
    """One line of an error, bounded, since a node wrote it."""
    return " ".join(str(error).split())[:500] or type(error).__name__
