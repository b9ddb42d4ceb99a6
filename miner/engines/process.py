"""An engine in a process of its own, so that a model can be replaced and a crash survived.

The node's process imports neither torch nor vllm. What the engine prints goes to a log file.
"""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Self

from miner.engines import base
from miner.engines.base import EngineCrashed, EngineError, EngineSettings
from miner.engines.channel import pack, receive
from protocol.messages import Stack, Work

# An engine has nothing to lose: it gets a moment to end what it started, then it is killed.
CLOSE_SECONDS = 5.0
LAST_LINE_CHARACTERS = 300
ERRORS: dict[str, type[EngineError]] = {
    kind.__name__: kind
    for kind in (
        base.DrawNotLive,
        base.EngineError,
        base.GenerationCancelled,
        base.UnitRefused,
    )
}
# The snapshot lies on disk; whatever else a library may want to ask the network for, it must not.
ENVIRONMENT = {"HF_HUB_OFFLINE": "1", "DO_NOT_TRACK": "1"}


class EngineProcess:
    """A running engine process with one model loaded. Make it with ``start``."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        log: Path,
    ) -> None:
        self._process = process
        self._reader = reader
        self._writer = writer
        self._log = log
        self._stack: Stack | None = None

    @classmethod
    async def start(
        cls,
        factory: str,
        folder: Path,
        model: str,
        revision: str,
        settings: EngineSettings,
        log: Path,
    ) -> Self:
        """Start a process for the engine at ``factory`` and load the snapshot in ``folder``.

        Args:
            log: file for what the engine prints; the one before it is kept as ``LOG.1``.

        Raises:
            EngineError: the engine refuses the model.
            EngineCrashed: the process ended while it loaded.
        """
        engine = await cls._spawn(log)
        load = {
            "factory": factory,
            "folder": str(folder),
            "model": model,
            "revision": revision,
            "settings": settings.model_dump(),
        }
        try:
            await engine._send({"load": load})
            answer = await engine._receive()
        except BaseException:
            # Also when the caller gives up waiting: no process may stay behind.
            await engine.kill()
            raise
        engine._stack = Stack.model_validate(answer["loaded"])
        return engine

    @property
    def stack(self) -> Stack:
        """What the loaded engine computes with."""
        if self._stack is None:
            raise EngineError("no model is loaded")
        return self._stack

    @property
    def pid(self) -> int:
        """The engine's process id."""
        return self._process.pid

    async def generate(self, work: Work, progress: Callable[[int], None]) -> list[list[int]]:
        """Return the ids of every sample of ``work``; ``progress`` is told the tokens so far.

        Raises:
            GenerationCancelled: ``cancel`` was called.
            UnitRefused: the unit does not fit this model or its context.
            EngineCrashed: the process ended.
        """
        await self._send({"generate": work.model_dump()})
        while True:
            answer = await self._receive()
            if "samples" in answer:
                return answer["samples"]
            progress(answer["progress"])

    async def cancel(self) -> None:
        """Make the generation that runs end early; without one, nothing happens."""
        with suppress(EngineCrashed):
            await self._send({"cancel": True})

    async def close(self) -> None:
        """End the process, by force if it does not go by itself."""
        self._writer.close()
        try:
            await asyncio.wait_for(self._process.wait(), CLOSE_SECONDS)
        except TimeoutError:
            await self.kill()

    async def kill(self) -> None:
        """End the process and what it has started, at once."""
        self._writer.close()
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.wait()

    @classmethod
    async def _spawn(cls, log: Path) -> Self:
        ours, theirs = socket.socketpair()
        with theirs, _opened(log) as output:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "miner.engines.worker",
                str(theirs.fileno()),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=(theirs.fileno(),),
                env=_environment(),
                start_new_session=True,
            )
        reader, writer = await asyncio.open_connection(sock=ours)
        return cls(process, reader, writer, log)

    async def _send(self, message: dict[str, Any]) -> None:
        try:
            self._writer.write(pack(message))
            await self._writer.drain()
        except ConnectionError as error:
            raise await self._crash() from error

    async def _receive(self) -> dict[str, Any]:
        try:
            answer = await receive(self._reader)
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise await self._crash() from error
        if "error" in answer:
            raise ERRORS[answer["error"]["kind"]](answer["error"]["message"])
        return answer

    async def _crash(self) -> EngineCrashed:
        await self.close()
        status = self._process.returncode
        lines = self._log.read_text(errors="replace").strip().splitlines()
        last = lines[-1][:LAST_LINE_CHARACTERS] if lines else "it printed nothing"
        return EngineCrashed(
            f"the engine's process ended with status {status}: {last}; {self._log}"
        )


def _opened(log: Path) -> BinaryIO:
    """Return the log opened anew; what it held is kept in ``LOG.1``."""
    log.parent.mkdir(parents=True, exist_ok=True)
    if log.exists():
        log.replace(log.with_name(log.name + ".1"))
    return log.open("wb")


def _environment() -> dict[str, str]:
    """Return the process's environment, in which this very code base is found first."""
    root = str(Path(__file__).resolve().parents[2])
    paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | ENVIRONMENT | {"PYTHONPATH": os.pathsep.join(paths)}
