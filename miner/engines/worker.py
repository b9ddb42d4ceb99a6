"""The engine's process, started by ``process.py`` as ``python -m miner.engines.worker FD``.

It ends when the node is gone or closes its end. What an engine does not foresee ends it too, with
its traceback in the log; the node then starts another.
"""

import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

from miner.engines.base import Engine, EngineError, EngineSettings, make_engine
from miner.engines.channel import Channel
from protocol.messages import Work

PROGRESS_SECONDS = 0.5


def main(descriptor: int) -> None:
    """Serve the node at the other end of the socket ``descriptor`` until it is gone."""
    # The node alone decides when its engine stops; a Ctrl-C reaches the whole process group.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    channel = Channel(socket.socket(fileno=descriptor))
    engine: Engine | None = None
    while (message := channel.receive()) is not None:
        try:
            if "load" in message:
                engine = _load(**message["load"])
                channel.send({"loaded": engine.stack().model_dump()})
            elif "generate" in message and engine is not None:
                work = Work.model_validate(message["generate"])
                channel.send({"samples": _generate(engine, work, channel)})
        except EngineError as error:
            channel.send({"error": {"kind": type(error).__name__, "message": str(error)}})
        except BrokenPipeError:
            break
    if engine is not None:
        engine.close()
    # What is left to tear down is the interpreter's libraries; that takes vLLM many seconds.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _load(factory: str, folder: str, model: str, revision: str, settings: dict[str, Any]) -> Engine:
    engine = make_engine(factory)
    engine.load(Path(folder), model, revision, EngineSettings.model_validate(settings))
    return engine


def _generate(engine: Engine, work: Work, channel: Channel) -> list[list[int]]:
    told = time.monotonic()

    def progress(tokens: int) -> None:
        nonlocal told
        if time.monotonic() - told >= PROGRESS_SECONDS:
            told = time.monotonic()
            channel.send({"progress": tokens})

    def cancelled() -> bool:
        """Any message during a generation, and the node's end, means: stop."""
        if channel.something_waits():
            channel.receive()
            return True
        return False

    return engine.generate(work, progress, cancelled)


if __name__ == "__main__":
    main(int(sys.argv[1]))
