"""``reliquary doctor``: what is well, and a remedy for what is not."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from live_gateway import LiveGateway, live_gateway

from protocol.keys import load_or_create_hotkey
from scripts.doctor import machine
from scripts.doctor.finding import Level


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveGateway]:
    with live_gateway(tmp_path_factory.mktemp("gateway")) as running:
        yield running


@pytest.fixture
def hotkey(tmp_path: Path) -> Path:
    load_or_create_hotkey(tmp_path / "hotkey.json")
    return tmp_path / "hotkey.json"


def doctor(role: str, *options: object) -> tuple[int, str]:
    command = [sys.executable, "-P", "-m", "scripts.cli", "doctor", role, *map(str, options)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout


def remedies(printed: str) -> dict[str, str]:
    """What must be mended, by what it is about."""
    lines = printed.splitlines()
    return {
        line.split()[1]: after.split("-> ", 1)[1]
        for line, after in pairwise(lines)
        if line.startswith("NO ")
    }


def test_a_registered_node_is_well(gateway: LiveGateway, hotkey: Path, tmp_path: Path) -> None:
    gateway.register(load_or_create_hotkey(hotkey).ss58_address, validator_permit=True)
    node = ("--gateway", gateway.origin, "--hotkey", hotkey, "--models", tmp_path)
    for role, more in (("miner", ("--engine", "transformers")), ("validator", ())):
        status, printed = doctor(role, *node, *more)
        assert (status, remedies(printed)) == (0, {}), printed
        assert "is registered, and its signature is taken" in printed
        assert "agrees with the gateway's" in printed


def test_a_stranger_is_told_to_register(gateway: LiveGateway, hotkey: Path) -> None:
    status, printed = doctor("validator", "--gateway", gateway.origin, "--hotkey", hotkey)
    assert status == 1
    assert list(remedies(printed)) == ["registration"]
    assert "register it on the subnet" in remedies(printed)["registration"]


def test_a_key_that_others_can_read_and_another_gateway(gateway: LiveGateway, hotkey: Path) -> None:
    other = load_or_create_hotkey(hotkey).ss58_address
    hotkey.chmod(0o644)
    node = ("--gateway", gateway.origin, "--hotkey", hotkey, "--gateway-hotkey", other)
    status, printed = doctor("validator", *node)
    assert status == 1
    assert remedies(printed) == {
        "hotkey": f"chmod 600 {hotkey}, or name another file",
        "gateway": "correct --gateway or --gateway-hotkey",
    }


def test_nobody_answers(hotkey: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        origin = f"http://127.0.0.1:{taken.getsockname()[1]}"
        status, printed = doctor("validator", "--gateway", origin, "--hotkey", hotkey)
    assert status == 1
    assert "see whether" in remedies(printed)["gateway"]


def test_a_clock_that_is_off(hotkey: Path, tmp_path: Path) -> None:
    with live_gateway(tmp_path / "gateway", clock=lambda: time.time() + 60) as late:
        _, printed = doctor("validator", "--gateway", late.origin, "--hotkey", hotkey)
    assert "60." in printed and "behind the gateway's" in printed
    assert remedies(printed)["clock"] == "keep it by NTP: timedatectl set-ntp true"


def test_a_gateway_before_its_first_start_and_with_a_broken_database(tmp_path: Path) -> None:
    status, printed = doctor("gateway", "--data", tmp_path / "data")
    assert (status, remedies(printed)) == (0, {}), printed
    (tmp_path / "data" / "gateway.sqlite").write_bytes(b"x" * 4_096)
    status, printed = doctor("gateway", "--data", tmp_path / "data")
    assert (status, list(remedies(printed))) == (1, ["store"])


def test_what_is_missing_is_said_in_a_line(tmp_path: Path) -> None:
    command = [sys.executable, "-P", "-m", "scripts.cli", "doctor", "miner"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("reliquary: --gateway: is needed")


def test_packages_are_those_of_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    assert machine.packages("gateway").level is Level.GOOD
    requires = ["numpy>=99", "no-such-thing", 'torch>=99; extra == "miner"', "rich>=1"]
    monkeypatch.setattr(machine.metadata, "requires", lambda name: requires)
    found = machine.packages("gateway")
    assert found.level is Level.BROKEN
    assert "no-such-thing is missing" in found.seen
    assert "numpy is" in found.seen and "torch" not in found.seen
    assert found.remedy == "pip install 'reliquary-batch[gateway]'"


def test_disk(tmp_path: Path) -> None:
    assert machine.disk(tmp_path / "not" / "there" / "yet", 0).level is Level.GOOD
    assert machine.disk(tmp_path, 10**9).level is Level.DOUBTFUL
