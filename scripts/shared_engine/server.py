"""The shared engine's process: ``python -m scripts.shared_engine.server ENGINE SOCKET``.

It speaks to each miner as an engine process does (``miner/engines/channel.py``), and computes one
unit at a time, whoever's it is. A snapshot is loaded once, whoever asks for it.
"""

import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, cast

from miner.engines.base import ENGINE_FACTORIES, Engine, EngineError, EngineSettings, make_engine
from miner.engines.channel import Channel
from protocol.messages import EngineName, Work

PROGRESS_TOKENS = 64


class SharedEngines:
    """The loaded engines by folder and settings; one thread of theirs computes, first come first.

    Args:
        make: returns a new engine.
    """

    def __init__(self, make: Callable[[], Engine]) -> None:
        self._make = make
        self._loaded: dict[tuple[str, str], Engine] = {}
        self._thread = ThreadPoolExecutor(1)

    def load(self, folder: str, model: str, revision: str, settings: dict[str, Any]) -> Engine:
        """Return the engine that holds a snapshot, loading it where none does.

        Raises:
            EngineError: the engine refuses it.
        """
        chosen = EngineSettings.model_validate(settings)
        return self._thread.submit(self._load, folder, model, revision, chosen).result()

    def generate(self, engine: Engine, work: Work, channel: Channel) -> list[list[int]]:
        """Generate once the units before it are done, telling of progress.

        Raises:
            EngineError: as the engine says.
        """
        told = 0

        def progress(tokens: int) -> None:
            nonlocal told
            if tokens >= told + PROGRESS_TOKENS:
                told = tokens
                channel.send({"progress": tokens})

        def cancelled() -> bool:
            """Any message during a generation, and the miner's end, means: stop."""
            if channel.something_waits():
                channel.receive()
                return True
            return False

        return self._thread.submit(engine.generate, work, progress, cancelled).result()

    def _load(self, folder: str, model: str, revision: str, settings: EngineSettings) -> Engine:
        key = (folder, settings.model_dump_json())
        if key not in self._loaded:
            engine = self._make()
            engine.load(Path(folder), model, revision, settings)
            self._loaded[key] = engine
        return self._loaded[key]


def accept(engines: SharedEngines, listening: socket.socket) -> None:
    """Serve whoever comes, each in a thread, for as long as the process lives."""
    while True:
        connection, _ = listening.accept()
        threading.Thread(target=_serve, args=(engines, connection), daemon=True).start()


def _serve(engines: SharedEngines, connection: socket.socket) -> None:
    with connection, suppress(BrokenPipeError, ConnectionResetError):
        _answer(engines, Channel(connection))


def _answer(engines: SharedEngines, channel: Channel) -> None:
    engine: Engine | None = None
    while (message := channel.receive()) is not None:
        try:
            if "load" in message:
                engine = engines.load(**message["load"])
                channel.send({"loaded": engine.stack().model_dump()})
            elif "generate" in message and engine is not None:
                work = Work.model_validate(message["generate"])
                channel.send({"samples": engines.generate(engine, work, channel)})
        except EngineError as error:
            channel.send({"error": {"kind": type(error).__name__, "message": str(error)}})


def main(engine: str, path: str) -> None:
    """Serve at the Unix socket ``path`` until SIGTERM."""
    # The network decides when its roles stop; a Ctrl-C reaches the whole process group.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    engines = SharedEngines(partial(make_engine, ENGINE_FACTORIES[cast(EngineName, engine)]))
    Path(path).unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen()
        accept(engines, listening)


if __name__ == "__main__":
    main(*sys.argv[1:])
