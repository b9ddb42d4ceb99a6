"""One role as a process of its own: started, stopped, killed, and never left behind."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

# A miner may take some seconds to finish its unit and some more to end its engine.
STOP_SECONDS = 30.0


@dataclass(frozen=True)
class Plan:
    """How a role is started: a module with its arguments, and what its environment adds.

    An environment value of None removes the variable.
    """

    name: str
    module: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str | None]


class Process:
    """The process of a ``Plan``; it writes all its output to ``log`` and leads its own group."""

    def __init__(self, plan: Plan, log: Path) -> None:
        self.plan = plan
        self.log = log
        self._popen: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process id; 0 before the first start."""
        return 0 if self._popen is None else self._popen.pid

    def start(self) -> None:
        """Start the process, its output appended to the log."""
        command = [sys.executable, "-P", "-m", "scripts.up.tether", self.plan.module]
        environment = dict(os.environ)
        for name, value in self.plan.environment.items():
            if value is None:
                environment.pop(name, None)
            else:
                environment[name] = value
        with self.log.open("ab") as log:
            self._popen = subprocess.Popen(
                [*command, *self.plan.arguments],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )

    def exit_status(self) -> int | None:
        """Return how the process ended (negative: by that signal), None while it runs.

        Raises:
            RuntimeError: it was never started.
        """
        if self._popen is None:
            raise RuntimeError(f"{self.plan.name} was not started")
        return self._popen.poll()

    def ask_to_stop(self) -> None:
        """Send SIGTERM to the process itself, which then sees to its own children."""
        if self._popen is not None and self._popen.poll() is None:
            self._popen.send_signal(signal.SIGTERM)

    def end(self, seconds: float = STOP_SECONDS) -> bool:
        """Wait for the end, at most ``seconds``, then kill what is left of its group.

        Returns whether it ended by itself in time.
        """
        if self._popen is None:
            return True
        try:
            self._popen.wait(seconds)
            in_time = True
        except subprocess.TimeoutExpired:
            in_time = False
        self.kill()
        return in_time

    def kill(self) -> None:
        """Kill the process and all that is left of its group (SIGKILL), and reap it."""
        if self._popen is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(self._popen.pid, signal.SIGKILL)
        self._popen.wait()
        if self._popen.stdin is not None:
            self._popen.stdin.close()
