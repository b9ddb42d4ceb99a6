"""What a worker process does beside its jobs: it bounds itself and outlives no gateway."""

import multiprocessing
import os
import resource
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from gateway.memory import give_back_freed

MAX_MEMORY_BYTES = 3 * 1024**3
MAX_HEAPS = 8
# The exit code of a worker that computed past its ``cpu_deadline``.
OVERTIME = -signal.SIGPROF


def prepare() -> None:
    """Bound the memory of this process and tie its life to that of its parent.

    Ctrl-C reaches the whole process group; the gateway alone decides what to do about it.
    """
    # Tokenizers allocate in a thread for each core.
    give_back_freed(heaps=1 + min(os.cpu_count() or 1, MAX_HEAPS))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if hard == resource.RLIM_INFINITY or hard > MAX_MEMORY_BYTES:
        resource.setrlimit(resource.RLIMIT_DATA, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    threading.Thread(target=_follow_parent, daemon=True).start()


def process_id() -> int:
    """The id of this process."""
    return os.getpid()


@contextmanager
def cpu_deadline(seconds: float) -> Iterator[None]:
    """End this process by SIGPROF once it has computed for ``seconds``, all threads together.

    Native code heeds no exception; whoever started the process tells by the signal what happened.
    """
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _follow_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(0)
