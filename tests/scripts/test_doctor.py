"""``reliquary doctor``: what is well, and a remedy for what is not."""

import io
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import redirect_stdout
from itertools import pairwise
from pathlib import Path

import pytest
from live_gateway import LiveGateway, live_gateway
from small_model import MODEL, small_model_hub

from protocol.keys import load_or_create_hotkey
from protocol.messages import Demand
from scripts.cli import main
from scripts.doctor import keys, machine, memory
from scripts.doctor.finding import Level
from scripts.env_file import write_environment


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveGateway]:
    with live_gateway(tmp_path_factory.mktemp("gateway")) as running:
        yield running


@pytest.fixture
def hotkey(tmp_path: Path) -> Path:
    load_or_create_hotkey(tmp_path / "hotkey.json")
    return tmp_path / "hotkey.json"


def doctor(role: str, *options: object) -> tuple[int, str]:
    """Run the command; return its exit status and what it printed."""
    said = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(said):
        patch.setattr(sys, "argv", ["reliquary", "doctor", role, *map(str, options)])
        # What a file of variables sets goes with the test.
        patch.setattr(os, "environ", dict(os.environ))
        try:
            main()
            status = 0
        except SystemExit as left:
            status = int(left.code or 0)
    return status, said.getvalue()


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
        assert "the gateway takes the signature of" in printed
        assert "agrees with the gateway's" in printed


def test_a_stranger_is_told_to_register(gateway: LiveGateway, hotkey: Path) -> None:
    status, printed = doctor("validator", "--gateway", gateway.origin, "--hotkey", hotkey)
    assert status == 1
    assert list(remedies(printed)) == ["admission"]
    assert "register it on the subnet" in remedies(printed)["admission"]


def test_the_chain_is_looked_at(gateway: LiveGateway, hotkey: Path, tmp_path: Path) -> None:
    address = load_or_create_hotkey(hotkey).ss58_address
    option = gateway.state.settings.chain
    node = ("--gateway", gateway.origin, "--hotkey", hotkey, "--chain", option)
    _, printed = doctor("validator", *node)
    command = f"reliquary chain register --chain {option} --hotkey {hotkey} --validator"
    assert remedies(printed)["registration"] == command
    gateway.register(address)
    status, printed = doctor("validator", *node)
    assert (status, remedies(printed)) == (1, {"registration": command})
    assert "has no validator's permit" in printed
    gateway.register(address, validator_permit=True)
    assert doctor("validator", *node)[0] == 0
    nowhere = ("--gateway", gateway.origin, "--hotkey", hotkey, "--chain", tmp_path / "none")
    _, printed = doctor("miner", "--engine", "transformers", *nowhere)
    assert list(remedies(printed)) == ["chain"]
    assert not (tmp_path / "none").exists()


def test_keys_that_should_not_be_there(tmp_path: Path) -> None:
    path = tmp_path / "cold" / "hotkeys" / "hot"
    load_or_create_hotkey(path)
    assert keys.coldkeys(path, tmp_path) == []
    (tmp_path / "cold" / "coldkey").touch()
    wallet = tmp_path / ".bittensor" / "wallets" / "other"
    wallet.mkdir(parents=True)
    (wallet / "coldkey").touch()
    found = keys.coldkeys(path, tmp_path)
    assert [finding.seen.split()[0] for finding in found] == [
        str(wallet / "coldkey"),
        str(tmp_path / "cold" / "coldkey"),
    ]
    assert keys.hotkey(path)[0].level is Level.GOOD
    path.parent.chmod(0o777)
    assert keys.hotkey(path)[0].remedy == f"chmod go-w {path.parent}"


async def test_models_that_are_ordered(
    tmp_path: Path,
) -> None:
    with small_model_hub(tmp_path / "hub") as commit:
        demand = Demand(
            model=MODEL,
            revision=commit,
            architecture="Qwen3ForCausalLM",
            waiting_samples=1,
            waiting_audits=0,
            deadline=0.0,
        )
        unknown = demand.model_copy(update={"model": "reliquary/unknown"})
        fits, missing = await memory.ordered_models([demand, demand, unknown], 1.0, tmp_path / "c")
        (small,) = await memory.ordered_models([demand], 1e-9, tmp_path / "c")
    assert fits.level is Level.GOOD and MODEL in fits.seen
    assert missing.level is Level.DOUBTFUL and "does not exist" in missing.seen
    assert (small.level, small.remedy) == (Level.DOUBTFUL, "it is left to larger machines")


def test_memory() -> None:
    assert memory.memory(80.0, on_gpu=True).level is Level.GOOD
    assert "33.0 billion" in memory.memory(80.0, on_gpu=True).seen
    assert memory.memory(8.0, on_gpu=False).level is Level.DOUBTFUL


def test_a_file_of_variables(gateway: LiveGateway, hotkey: Path, tmp_path: Path) -> None:
    env = tmp_path / "validator.env"
    node = {"GATEWAY": gateway.origin, "HOTKEY": str(hotkey), "MODELS": str(tmp_path)}
    write_environment(env, {f"RELIQUARY_VALIDATOR_{name}": node[name] for name in node})
    _, printed = doctor("validator", "--env", env)
    assert gateway.origin in printed and str(hotkey) in printed


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
