"""The guides of miner and validator: what can run on one machine is run as it is written."""

import os
import re
import shlex
import sys
from pathlib import Path

import pytest
from live_gateway import live_gateway
from typer.main import get_command

from scripts.cli import main
from scripts.cli.app import app

DOCS = Path(__file__).parents[2] / "docs"
ROLES = ("miner", "validator")


def commands(role: str, kind: str) -> list[str]:
    """Return the lines of the guide's blocks of one kind, such as ``here``."""
    text = (DOCS / f"{role}.md").read_text()
    blocks = re.findall(rf"^```sh {kind}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


def run(line: str) -> int:
    words = shlex.split(os.path.expandvars(line))
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as left:
        patch.setattr(sys, "argv", words)
        main()
        raise SystemExit(0)
    return int(left.value.code or 0)


@pytest.mark.parametrize("role", ROLES)
def test_from_an_empty_folder_to_all_is_well(
    role: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with live_gateway(tmp_path / "gateway") as gateway:
        keypair = gateway.state.keypair
        gateway.chain.register(keypair.ss58_address, keypair.ss58_address)
        gateway.chain.set_rules(owner_hotkey=keypair.ss58_address)
        gateway.run(gateway.chain.publish_endpoint(keypair, gateway.origin))
        monkeypatch.setenv("CHAIN", str(gateway.state.settings.chain))
        monkeypatch.setenv("DATA", str(tmp_path / "node"))
        monkeypatch.setenv("GATEWAY", gateway.origin)
        setup, register, doctor, scores = commands(role, "here")
        assert run(setup) == 1
        assert run(register) == 0
        gateway.state.neurons.forget()
        assert run(doctor) == 0
        assert run(scores) == 0


@pytest.mark.parametrize("role", ROLES)
def test_every_other_command_of_ours_exists_with_its_options(role: str) -> None:
    lines = [line for kind in ("runs", "after an epoch") for line in commands(role, kind)]
    assert lines
    for line in lines:
        words = shlex.split(line)[1:]
        command = get_command(app)
        while words and words[0] in getattr(command, "commands", {}):
            command = command.commands[words.pop(0)]  # pyright: ignore[reportAttributeAccessIssue]
        known = {option for param in command.params for option in param.opts}
        assert {word for word in words if word.startswith("--")} <= known, line
