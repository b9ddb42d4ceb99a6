"""What a gateway's processor time went to, as ``timed.py`` writes it down."""

import json
import os
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

VARIABLE = "RELIQUARY_BENCH_ACCOUNT"
OUTSIDE = "no request"
WRITING_SECONDS = 10.0


@dataclass(frozen=True)
class Account:
    """Processor seconds of one gateway process.

    Attributes:
        seconds: of its event loop, by route or other work; ``OUTSIDE`` is what belongs to none,
            such as reading sockets.
        requests, statements: their numbers by route; other work has no requests.
        loop: of its event loop in all.
        threads: of its other threads.
    """

    seconds: Mapping[str, float]
    requests: Mapping[str, int]
    statements: Mapping[str, int]
    loop: float
    threads: float


def begin(process_id: int) -> None:
    """Let a gateway begin its account."""
    os.kill(process_id, signal.SIGUSR1)


def end(process_id: int, path: Path) -> Account:
    """Let a gateway end its account, and return it.

    Raises:
        TimeoutError: it does not write any.
    """
    os.kill(process_id, signal.SIGUSR2)
    until = time.monotonic() + WRITING_SECONDS
    while not path.exists():
        if time.monotonic() > until:
            raise TimeoutError(f"the gateway has written no {path}")
        time.sleep(0.05)
    return Account(**json.loads(path.read_text()))
