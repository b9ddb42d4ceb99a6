"""What a worker process does beside reading files: it bounds itself and outlives no gateway."""

import multiprocessing
import os
import resource
import signal
import threading
from pathlib import Path

from gateway.intake.lines import read_lines
from gateway.intake.reading import read_leniently
from gateway.memory import give_back_freed

MAX_MEMORY_BYTES = 3 * 1024**3


def prepare() -> None:
    """Bound the memory of this process and tie its life to that of its parent.

    Ctrl-C reaches the whole process group; the gateway alone decides what to do about it.
    """
    give_back_freed()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if hard == resource.RLIM_INFINITY or hard > MAX_MEMORY_BYTES:
        resource.setrlimit(resource.RLIMIT_DATA, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    threading.Thread(target=_follow_parent, daemon=True).start()


def process_id() -> int:
    """The id of this process."""
    return os.getpid()


def first_model(path: Path) -> str | None:
    """``body.model`` of the first line that is a JSON object, even if that line is refused.

    Returns:
        The text, or None where there is no such line, or its model is not a text.

    Raises:
        OSError: the file cannot be read.
    """
    for line in read_lines(path):
        value = None if line.data is None else read_leniently(line.data)
        if isinstance(value, dict):
            body = value.get("body")
            model = body.get("model") if isinstance(body, dict) else None
            return model if isinstance(model, str) else None
    return None


def _follow_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(0)
