"""The terminal's view of the roles' logs: each line with its role's name, no library's noise.

The files hold everything. What a role itself says begins with a time and a level
(``scripts/cli/logs.py``); all else, such as an engine's start, is only in the file.
"""

import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

POLL_SECONDS = 0.2
NAME_WIDTH = 12

_ROLE_LINE = re.compile(r"^\d\d:\d\d:\d\d (debug|info|warning|error|critical) ")


class Follower:
    """Reads growing log files in a thread and hands each role's own lines to ``write``."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._files: dict[str, BinaryIO] = {}
        self._rests: dict[str, bytes] = {}
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="follower", daemon=True)

    def follow(self, name: str, path: Path) -> None:
        """Show what is appended to ``path`` from now on under ``name``."""
        path.touch()
        file = path.open("rb")
        file.seek(0, 2)
        with self._lock:
            self._files[name], self._rests[name] = file, b""

    def start(self) -> None:
        """Begin to show lines."""
        self._thread.start()

    def stop(self) -> None:
        """Show what is left, then close the files."""
        self._stopped.set()
        self._thread.join()
        for file in self._files.values():
            file.close()

    def _run(self) -> None:
        while not self._stopped.wait(POLL_SECONDS):
            self._show()
        self._show()

    def _show(self) -> None:
        with self._lock:
            files = list(self._files.items())
        for name, file in files:
            *lines, self._rests[name] = (self._rests[name] + file.read()).split(b"\n")
            for line in lines:
                text = line.decode("utf-8", "replace").rstrip()
                if _ROLE_LINE.match(text):
                    self._write(f"{name:<{NAME_WIDTH}} {text}")


def last_lines(path: Path, number: int = 3) -> list[str]:
    """Return the last lines of a log that are not blank."""
    if not path.exists():
        return []
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 8_192))
        lines = file.read().decode("utf-8", "replace").splitlines()
    return [line for line in lines if line.strip()][-number:]
