import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from scripts.up.follow import Follower, last_lines
from scripts.up.process import Plan, Process
from scripts.up.supervisor import RESTARTS, Supervisor, UnknownRole

PATIENCE_SECONDS = 30.0

POLITE = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, lambda *_: (print("bye", flush=True), sys.exit(0)))
print('{"event": "ready", "level": "info", "timestamp": "2026-01-02T12:00:00Z", "n": 2}')
print("a library's noise", flush=True)
time.sleep(3600)
"""
STUBBORN = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
print(f"child {child.pid}", flush=True)
time.sleep(3600)
"""
PARENT = """
import sys, time
from pathlib import Path
from scripts.up.process import Plan, Process
process = Process(Plan("role", "polite", (), {"PYTHONPATH": sys.argv[1]}), Path(sys.argv[2]))
process.start()
print(process.pid, flush=True)
time.sleep(3600)
"""


def eventually(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


@pytest.fixture
def modules(tmp_path: Path) -> Path:
    folder = tmp_path / "modules"
    folder.mkdir()
    (folder / "polite.py").write_text(POLITE)
    (folder / "stubborn.py").write_text(STUBBORN)
    (folder / "short.py").write_text("raise SystemExit('no such model')")
    return folder


def plan(modules: Path, module: str, name: str = "role") -> Plan:
    return Plan(name, module, (), {"PYTHONPATH": f"{modules}:{Path.cwd()}"})


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def supervisor(tmp_path: Path, said: list[str]) -> Iterator[Supervisor]:
    logs = tmp_path / "logs"
    logs.mkdir()
    supervisor = Supervisor(logs, said.append)
    supervisor.begin()
    yield supervisor
    supervisor.stop()


def test_a_polite_process_stops_on_request(modules: Path, tmp_path: Path):
    process = Process(plan(modules, "polite"), tmp_path / "log")
    process.start()
    eventually(lambda: b"ready" in process.log.read_bytes())
    process.ask_to_stop()
    assert process.end()
    assert process.exit_status() == 0
    assert process.log.read_bytes().endswith(b"bye\n")


def test_a_stubborn_process_is_killed_with_its_children(modules: Path, tmp_path: Path):
    process = Process(plan(modules, "stubborn"), tmp_path / "log")
    process.start()
    eventually(lambda: b"child" in process.log.read_bytes())
    child = int(process.log.read_text().split()[1])
    assert alive(child)
    process.ask_to_stop()
    assert not process.end(seconds=0.3)
    assert process.exit_status() == -signal.SIGKILL
    eventually(lambda: not alive(child))


def test_a_process_does_not_outlive_a_killed_parent(modules: Path, tmp_path: Path):
    log = tmp_path / "log"
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, f"{modules}:{Path.cwd()}", str(log)], stdout=subprocess.PIPE
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    eventually(lambda: log.exists() and b"ready" in log.read_bytes())
    parent.kill()
    parent.wait()
    parent.stdout.close()
    eventually(lambda: not alive(pid))
    assert log.read_bytes().endswith(b"bye\n")


def test_a_killed_role_is_started_again(supervisor: Supervisor, modules: Path, said: list[str]):
    supervisor.start(plan(modules, "polite"))
    first = supervisor.pid("role")
    os.kill(first, signal.SIGKILL)
    eventually(lambda: supervisor.pid("role") != first and supervisor.running("role"))
    assert len(said) == 1
    assert "role ended by signal 9; starting it again" in said[0]


def test_a_role_that_keeps_dying_is_given_up(
    tmp_path: Path, modules: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("scripts.up.supervisor.BACK_OFF_SECONDS", 0.0)
    supervisor = Supervisor(tmp_path, said.append)
    supervisor.begin()
    supervisor.start(plan(modules, "short"))
    eventually(lambda: supervisor.gave_up("role"))
    supervisor.stop()
    assert len(said) == RESTARTS + 1
    assert "giving up" in said[-1]
    assert "no such model" in said[-1]


def test_a_role_killed_on_purpose_stays_dead_until_restarted(
    supervisor: Supervisor, modules: Path, said: list[str]
):
    supervisor.start(plan(modules, "polite"))
    supervisor.start(plan(modules, "polite", "other"))
    supervisor.kill("role")
    os.kill(supervisor.pid("other"), signal.SIGKILL)
    eventually(lambda: bool(said))  # the watch has been round
    assert not supervisor.running("role")
    assert all("role " not in line for line in said)
    supervisor.restart("role")
    assert supervisor.running("role")


def test_an_unknown_role_is_named(supervisor: Supervisor, modules: Path):
    supervisor.start(plan(modules, "polite"))
    with pytest.raises(UnknownRole, match="'miner-9'; there are role"):
        supervisor.kill("miner-9")


def test_stopping_ends_every_role(supervisor: Supervisor, modules: Path):
    for name in ("a", "b", "c"):
        supervisor.start(plan(modules, "polite", name))
    pids = [supervisor.pid(name) for name in ("a", "b", "c")]
    supervisor.stop()
    assert not any(alive(pid) for pid in pids)


def test_the_terminal_shows_only_the_roles_own_lines(modules: Path, tmp_path: Path):
    lines: list[str] = []
    follower = Follower(lines.append)
    log = tmp_path / "log"
    follower.follow("miner-1", log)
    follower.start()
    process = Process(plan(modules, "polite"), log)
    process.start()
    eventually(lambda: b"noise" in log.read_bytes())
    process.kill()
    follower.stop()
    assert lines == ["miner-1      12:00:00 ready n=2"]


def test_a_line_written_in_two_pieces_is_shown_once_whole(tmp_path: Path):
    lines: list[str] = []
    follower = Follower(lines.append)
    log = tmp_path / "log"
    follower.follow("hub", log)
    follower.start()
    with log.open("a") as file:
        file.write('{"event": "unit void", "level": "warning", ')
        file.flush()
        time.sleep(0.5)
        file.write('"reason": "margin above 4", "timestamp": "2026-01-02T12:00:00.5Z"}\n{broken\n')
    follower.stop()
    assert lines == ['hub          12:00:00 WARNING: unit void reason="margin above 4"']


def test_last_lines_skip_blank_ones(tmp_path: Path):
    log = tmp_path / "log"
    log.write_text('one\n\ntwo\n\n{"event": "stopped", "level": "info", "timestamp": ""}\n\n')
    assert last_lines(log, 2) == ["two", " stopped"]
    assert last_lines(tmp_path / "absent") == []
