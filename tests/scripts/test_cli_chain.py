"""``reliquary chain`` on a local chain, as an operator uses it."""

import asyncio
import sys
import time
from pathlib import Path

import pytest

from protocol.chain.gateway import Gateway, find_gateway
from protocol.chain.local import LocalChain
from scripts.cli import main


class Shell:
    """Runs ``reliquary chain`` on one file and keeps what it said."""

    def __init__(self, folder: Path, capture: pytest.CaptureFixture[str]) -> None:
        self.path = folder / "chain.sqlite"
        self._capture = capture

    def __call__(self, command: str, *options: str, chain: str = "", status: int = 0) -> str:
        """Run a command that must end with ``status``; return what it said."""
        arguments = ["reliquary", "chain", command, "--chain", chain or f"local:{self.path}"]
        with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as left:
            patch.setattr(sys, "argv", [*arguments, *options])
            main()
        output, errors = self._capture.readouterr()
        assert (left.value.code or 0) == status, errors
        return errors if status else output


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(tmp_path, capsys)


def test_a_gateway_registers_as_owner_and_is_found(shell: Shell, tmp_path: Path):
    key = str(tmp_path / "hotkey.json")
    uid, address = shell("register", "--hotkey", key, "--owner").split()
    shell("publish", "--hotkey", key, "--url", "https://gateway.example")
    assert uid == "0"
    found = asyncio.run(find_gateway(LocalChain(shell.path, time.time), None))
    assert found == Gateway("https://gateway.example", address)


def test_the_weights_of_a_validator(shell: Shell, tmp_path: Path):
    addresses = [
        shell("register", "--hotkey", str(tmp_path / name), *options).split()[1]
        for name, options in (("miner", ()), ("other", ()), ("validator", ("--validator",)))
    ]
    later = LocalChain(shell.path, lambda: time.time() + 60)
    later.set_weights_of(addresses[2], {addresses[0]: 21_845, addresses[1]: 65_535}, 0)
    lines = shell("weights", "--hotkey", addresses[2]).splitlines()
    assert lines[1:] == [f"  75.000 %  {addresses[1]}", f"  25.000 %  {addresses[0]}"]


def test_mistakes_are_told_in_a_line(shell: Shell, tmp_path: Path):
    key = str(tmp_path / "hotkey.json")
    network = "bittensor:ws://127.0.0.1:9:1"
    refused = shell("register", "--hotkey", key, chain=network, status=2)
    assert "btcli subnets register" in refused
    assert "NETWORK:NETUID" in shell("publish", *_publish(key), chain="bittensor:x", status=2)
    assert "no such file" in shell("publish", *_publish(key), status=1).lower()
    shell("register", "--hotkey", key)
    assert "not an origin" in shell("publish", "--hotkey", key, "--url", "x", status=1)
    assert "is not registered" in shell("weights", "--hotkey", "stranger", status=1)


def _publish(key: str) -> list[str]:
    return ["--hotkey", key, "--url", "https://gateway.example"]
