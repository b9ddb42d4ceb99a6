"""The miners' side: an engine that another process computes for.

To a miner it is an engine like any other, in a process of its own; that process just holds no
model. Cheats wrap it as they wrap any engine.
"""

import os
import select
import socket
from pathlib import Path

from miner.engines.base import (
    Cancelled,
    EngineCrashed,
    EngineError,
    EngineSettings,
    GenerationCancelled,
    Progress,
)
from miner.engines.channel import Channel
from miner.engines.process import ERRORS
from protocol.messages import Stack, Work

# Where the shared engine listens: the path of a Unix socket.
VARIABLE = "RELIQUARY_SHARED_ENGINE"
POLL_SECONDS = 0.1


class SharedEngine:
    """Asks the engine at the socket that the environment names for everything."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self._stack: Stack | None = None

    def load(self, folder: Path, model: str, revision: str, settings: EngineSettings) -> None:
        """Have the snapshot in ``folder`` loaded; one that is loaded already is shared.

        Raises:
            EngineError: there is no shared engine, or it refuses the model.
        """
        path = os.environ.get(VARIABLE)
        if path is None:
            raise EngineError(f"{VARIABLE} does not say where the shared engine listens")
        self._socket = socket.socket(socket.AF_UNIX)
        try:
            self._socket.connect(path)
        except OSError as error:
            raise EngineError(f"no shared engine answers at {path}: {error}") from error
        load = {
            "folder": str(folder),
            "model": model,
            "revision": revision,
            "settings": settings.model_dump(),
        }
        Channel(self._socket).send({"load": load})
        self._stack = Stack.model_validate(self._answer()["loaded"])

    def stack(self) -> Stack:
        """Return what the shared engine computes with.

        Raises:
            EngineError: nothing is loaded.
        """
        if self._stack is None:
            raise EngineError("no model is loaded")
        return self._stack

    def generate(self, work: Work, progress: Progress, cancelled: Cancelled) -> list[list[int]]:
        """Return the ids of every sample of ``work``, once the engine has come to it.

        Raises:
            GenerationCancelled: ``cancelled`` said so.
            EngineError: as the engine says.
        """
        connection = self._connected()
        Channel(connection).send({"generate": work.model_dump()})
        told = False
        while True:
            if not select.select([connection], [], [], POLL_SECONDS)[0]:
                if cancelled() and not told:
                    told = True
                    Channel(connection).send({"cancel": True})
                continue
            answer = self._answer()
            if "samples" in answer:
                if told:
                    raise GenerationCancelled("the unit was given up")
                return answer["samples"]
            progress(answer["progress"])

    def close(self) -> None:
        """Let go of the shared engine, which goes on for others."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _connected(self) -> socket.socket:
        if self._socket is None:
            raise EngineError("no model is loaded")
        return self._socket

    def _answer(self) -> dict:
        answer = Channel(self._connected()).receive()
        if answer is None:
            raise EngineCrashed("the shared engine is gone")
        if "error" in answer:
            raise ERRORS[answer["error"]["kind"]](answer["error"]["message"])
        return answer
