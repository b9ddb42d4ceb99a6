"""The terminal's view of the roles' logs: each line with its role's name, no library's noise.

The files hold everything. What a role itself says is one JSON object a line, as structlog writes it
where no person is reading; all else, such as an engine's start, is only in the file.
"""

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

POLL_SECONDS = 0.2
NAME_WIDTH = 12

_LEVELS = frozenset({"info", "warning", "error", "critical"})
# One line a request: for the file.
_QUIET = frozenset({"gateway.http"})
_UNSHOWN = frozenset({"event", "level", "logger", "timestamp", "exception"})


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
                text = _readable(line)
                if text is not None:
                    self._write(f"{name:<{NAME_WIDTH}} {text}")


def _readable(line: bytes) -> str | None:
    """Return a role's own line for a person, None for any other line."""
    if not line.startswith(b"{"):
        return None
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    if not isinstance(entry, dict) or entry.get("level") not in _LEVELS or "event" not in entry:
        return None
    if entry["level"] == "info" and entry.get("logger") in _QUIET:
        return None
    time = str(entry.get("timestamp", ""))[11:19]
    values = "".join(
        f" {name}={_value(value)}" for name, value in entry.items() if name not in _UNSHOWN
    )
    level = "" if entry["level"] == "info" else f"{entry['level'].upper()}: "
    return f"{time} {level}{entry['event']}{values}"


def _value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    text = str(value)
    return json.dumps(text, ensure_ascii=False) if any(part in text for part in ' \n"=') else text


def last_lines(path: Path, number: int = 3) -> list[str]:
    """Return the last lines of a log that are not blank, a role's own ones as a person reads."""
    if not path.exists():
        return []
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 8_192))
        lines = [line for line in file.read().splitlines() if line.strip()]
    return [_readable(line) or line.decode("utf-8", "replace") for line in lines[-number:]]
