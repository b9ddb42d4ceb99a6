"""Keeps the roles running: one that dies is started again, a bounded number of times."""

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from scripts.up.follow import Follower, last_lines
from scripts.up.process import STOP_SECONDS, Plan, Process

POLL_SECONDS = 0.3
RESTARTS = 5
RESTART_WINDOW_SECONDS = 600.0
BACK_OFF_SECONDS = 1.0


class UnknownRole(Exception):
    """No process has that name."""


@dataclass
class _Ward:
    process: Process
    watched: bool = True
    given_up: bool = False
    deaths: deque[float] = field(default_factory=deque)
    due: float | None = None


class Supervisor:
    """The processes of one network.

    Args:
        logs: an existing folder for one log file a role.
        say: takes a line about the network itself.
        follower: shows the roles' lines, or None.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        logs: Path,
        say: Callable[[str], None],
        follower: Follower | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._logs = logs
        self._say = say
        self._follower = follower
        self._clock = clock
        self._wards: dict[str, _Ward] = {}
        self._lock = threading.RLock()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="supervisor", daemon=True)

    def begin(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def start(self, plan: Plan) -> None:
        """Start a role with a fresh log."""
        process = Process(plan, self._logs / f"{plan.name}.log")
        process.log.write_bytes(b"")
        if self._follower is not None:
            self._follower.follow(plan.name, process.log)
        with self._lock:
            process.start()
            self._wards[plan.name] = _Ward(process)

    def names(self) -> list[str]:
        """Return the names of all roles that were started."""
        with self._lock:
            return list(self._wards)

    def pid(self, name: str) -> int:
        """Return the process id of a role."""
        return self._ward(name).process.pid

    def running(self, name: str) -> bool:
        """Say whether the role's process runs now."""
        return self._ward(name).process.exit_status() is None

    def gave_up(self, name: str) -> bool:
        """Say whether the role died too often to be started again."""
        return self._ward(name).given_up

    def kill(self, name: str) -> None:
        """Kill a role with SIGKILL and leave it dead until ``restart``."""
        with self._lock:
            ward = self._ward(name)
            ward.watched = False
            ward.process.kill()

    def restart(self, name: str) -> None:
        """Start a role again, stopping it first where it runs."""
        with self._lock:
            ward = self._ward(name)
            ward.process.ask_to_stop()
            ward.process.end()
            ward.process.start()
            ward.watched, ward.given_up, ward.due = True, False, None

    def stop(self) -> None:
        """Stop all roles, the last started first to be asked, within a bounded time."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()
        with self._lock:
            wards = list(reversed(self._wards.values()))
            for ward in wards:
                ward.process.ask_to_stop()
            deadline = self._clock() + STOP_SECONDS
            for ward in wards:
                if not ward.process.end(max(0.1, deadline - self._clock())):
                    self._say(f"{ward.process.plan.name} did not stop in time and was killed")

    def _ward(self, name: str) -> _Ward:
        try:
            return self._wards[name]
        except KeyError:
            known = ", ".join(self._wards)
            raise UnknownRole(f"no role is named {name!r}; there are {known}") from None

    def _watch(self) -> None:
        while not self._stopped.wait(POLL_SECONDS):
            with self._lock:
                for ward in self._wards.values():
                    self._look_after(ward)

    def _look_after(self, ward: _Ward) -> None:
        if not ward.watched or ward.given_up:
            return
        now = self._clock()
        if ward.due is not None:
            if now >= ward.due:
                ward.due = None
                ward.process.start()
            return
        status = ward.process.exit_status()
        if status is None:
            return
        ward.process.kill()  # what the dead process left in its group
        while ward.deaths and ward.deaths[0] < now - RESTART_WINDOW_SECONDS:
            ward.deaths.popleft()
        ward.deaths.append(now)
        self._announce_death(ward, status, now)

    def _announce_death(self, ward: _Ward, status: int, now: float) -> None:
        name, log = ward.process.plan.name, ward.process.log
        how = f"by signal {-status}" if status < 0 else f"with status {status}"
        last = " | ".join(last_lines(log, 1)) or "nothing in its log"
        if len(ward.deaths) > RESTARTS:
            ward.given_up = True
            self._say(f"{name} ended {how} {RESTARTS + 1} times; giving up. {last} (see {log})")
            return
        ward.due = now + BACK_OFF_SECONDS * 2 ** (len(ward.deaths) - 1)
        self._say(f"{name} ended {how}; starting it again. {last} (see {log})")
