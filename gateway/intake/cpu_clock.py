"""A clock of the CPU time that bounded blocks take, which ticks by a signal.

While it runs, a block that is entered for every line of a file costs no system call. For the main
thread, one block at a time.
"""

import signal
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from types import FrameType

TICK_SECONDS = 0.05


class Overtime(Exception):
    """The CPU time of one block is spent."""


class _Clock:
    """The one clock of the process."""

    running = False
    # Of all blocks so far, and what the one that runs may still take.
    spent = 0.0
    left: float | None = None

    def tick(self, _number: int, _frame: FrameType | None) -> None:
        if self.left is None:
            return
        self.spent += TICK_SECONDS
        self.left -= TICK_SECONDS
        if self.left <= 0:
            raise Overtime


_CLOCK = _Clock()


def spent_seconds() -> float:
    """Return what all blocks of this process have taken, as far as ticks fell into them."""
    return _CLOCK.spent


@contextmanager
def running_clock() -> Iterator[None]:
    """Let the clock run for all blocks within."""
    previous = signal.signal(signal.SIGVTALRM, _CLOCK.tick)
    signal.setitimer(signal.ITIMER_VIRTUAL, TICK_SECONDS, TICK_SECONDS)
    _CLOCK.running = True
    try:
        yield
    finally:
        _CLOCK.running = False
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, previous)


class cpu_limit:
    """Raise ``Overtime`` once a block has computed for ``seconds``, to the length of a tick.

    Where the clock does not run, it runs for the block.
    """

    __slots__ = ("_clock", "_seconds")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._clock: AbstractContextManager[None] | None = None

    def __enter__(self) -> None:
        if not _CLOCK.running:
            self._clock = running_clock()
            self._clock.__enter__()
        _CLOCK.left = self._seconds

    def __exit__(self, *_: object) -> None:
        _CLOCK.left = None
        if self._clock is not None:
            self._clock.__exit__(None, None, None)
