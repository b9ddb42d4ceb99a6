"""The data folder of a network: where everything lies, who holds it, and the port it serves on."""

import fcntl
import os
import socket
from dataclasses import dataclass
from pathlib import Path

HOST = "127.0.0.1"


class NetworkError(Exception):
    """The network cannot start; the message says why and what to do."""


@dataclass(frozen=True)
class Layout:
    """Paths inside the data folder ``data``."""

    data: Path

    @property
    def chain(self) -> Path:
        """The LocalChain file."""
        return self.data / "chain.sqlite"

    @property
    def hub(self) -> Path:
        """The repositories that the local hub serves."""
        return self.data / "hub"

    @property
    def models(self) -> Path:
        """What the roles have downloaded."""
        return self.data / "models"

    @property
    def gateway(self) -> Path:
        """The gateway's database and objects."""
        return self.data / "gateway"

    @property
    def logs(self) -> Path:
        """One whole log a role."""
        return self.data / "logs"

    @property
    def engine(self) -> Path:
        """The socket of the engine that miners share."""
        return self.data / "engine.sock"

    @property
    def environment(self) -> Path:
        """What a customer's script needs to know: ``reliquary.env``."""
        return self.data / "reliquary.env"

    def hotkey(self, role: str) -> Path:
        """The hotkey file of a role."""
        return self.data / "keys" / f"{role}.json"

    def make(self) -> None:
        """Make the folders.

        Raises:
            NetworkError: they cannot be made.
        """
        folders = (self.hub, self.models, self.gateway, self.logs, self.data / "keys")
        try:
            for folder in folders:
                folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise NetworkError(f"cannot use the data folder {self.data}: {error}") from error


class DataLock:
    """Holds a data folder for one network at a time."""

    def __init__(self, layout: Layout) -> None:
        self._path = layout.data / "up.lock"
        self._descriptor: int | None = None

    def take(self) -> None:
        """Take the folder.

        Raises:
            NetworkError: another network holds it.
        """
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise NetworkError(
                f"the data folder {self._path.parent} is in use by another network; stop that one "
                "or choose another folder with --data"
            ) from None
        self._descriptor = descriptor

    def give_back(self) -> None:
        """Let another network have the folder."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def free_port(wanted: int) -> int:
    """Return ``wanted`` if it can be served on, any free port where it is 0.

    Raises:
        NetworkError: something else serves on that port.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, wanted))
        except OSError as error:
            raise NetworkError(
                f"port {wanted} cannot be used ({error.strerror}); choose another with --port"
            ) from error
        return probe.getsockname()[1]
