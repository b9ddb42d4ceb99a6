"""Limits on what one comparison may take, inside of a grading process.

Time is the CPU time of the process, so that a busy machine changes no grade. What runs past the
first limit is broken off; what does not heed that takes the process along, by a signal that tells
why (``gateway.worker.OVERTIME``).
"""

import resource
import signal
from collections.abc import Callable
from types import FrameType

from gateway.worker import cpu_deadline

CPU_SECONDS = 2.0
# Beyond the first limit, for what runs in native code and heeds no exception.
GRACE_SECONDS = 2.0
REPEAT_SECONDS = 0.1
MEMORY_BYTES = 1024**3


class OutOfTime(BaseException):
    """A comparison took too long; no ``except Exception`` of a library holds it up."""


def bound_memory() -> None:
    """Bound the memory of this worker process; what asks for more gets a ``MemoryError``."""
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    most = MEMORY_BYTES if hard == resource.RLIM_INFINITY else min(MEMORY_BYTES, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (most, hard))


def within_limits(compare: Callable[[], bool]) -> bool:
    """Return what a comparison returns; False where it takes too much time or memory.

    For the main thread of a process that may be ended.
    """
    armed = True

    def give_up(number: int, frame: FrameType | None) -> None:
        if armed:
            raise OutOfTime

    previous = signal.signal(signal.SIGVTALRM, give_up)
    try:
        with cpu_deadline(CPU_SECONDS + GRACE_SECONDS):
            signal.setitimer(signal.ITIMER_VIRTUAL, CPU_SECONDS, REPEAT_SECONDS)
            try:
                return compare()
            finally:
                armed = False
    except (OutOfTime, MemoryError, RecursionError):
        return False
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, previous)
