"""``reliquary miner setup`` and ``reliquary validator setup``, as an operator runs them."""

import io
import os
import pty
import re
import select
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest
from bittensor_core import Keypair
from live_gateway import LiveGateway, live_gateway

from protocol.chain.local import LocalChain
from protocol.keys import load_hotkey, load_or_create_hotkey
from scripts.cli import main
from scripts.env_file import read_environment
from scripts.node_setup.hotkeys import found

COMMAND = [sys.executable, "-P", "-m", "scripts.cli"]


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveGateway]:
    """A gateway that its chain names."""
    with live_gateway(tmp_path_factory.mktemp("gateway")) as running:
        keypair = running.state.keypair
        running.chain.register(keypair.ss58_address, keypair.ss58_address)
        running.chain.set_rules(owner_hotkey=keypair.ss58_address)
        running.run(running.chain.publish_endpoint(keypair, running.origin))
        yield running


@pytest.fixture
def chain(gateway: LiveGateway) -> str:
    return str(gateway.state.settings.chain)


def environment(home: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RELIQUARY_")}
    return kept | {"HOME": str(home)}


@dataclass
class Done:
    returncode: int
    stdout: str
    stderr: str


def reliquary(*words: object, home: Path) -> Done:
    """Run a command where nobody is there to answer, as a process would."""
    said, complained = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["reliquary", *map(str, words)])
        patch.setattr(sys, "stdin", io.StringIO())
        patch.setenv("HOME", str(home))
        with redirect_stdout(said), redirect_stderr(complained):
            try:
                main()
                status = 0
            except SystemExit as left:
                status = int(left.code or 0)
    return Done(status, said.getvalue(), complained.getvalue())


def setup(role: str, *options: object, home: Path) -> Done:
    return reliquary(role, "setup", *options, home=home)


def told(done: Done, about: str) -> list[str]:
    return re.findall(rf"^(?:ok |NO |!! )?{about} +(.+)$", done.stdout, re.MULTILINE)


@pytest.mark.parametrize("role", ["miner", "validator"])
def test_from_nothing_to_a_start(role: str, gateway: LiveGateway, chain: str, tmp_path: Path):
    data = tmp_path / "data"
    first = setup(role, "--chain", chain, "--data", data, home=tmp_path)
    assert first.returncode == 1
    key, env = data / f"{role}-hotkey.json", data / f"{role}.env"
    for path in (key, env):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(data.stat().st_mode) == 0o700
    # The command that it is told to give, and after it all is well.
    (line,) = re.findall(r"-> reliquary (chain register .+)", first.stdout)
    assert reliquary(*line.split(), home=tmp_path).returncode == 0
    gateway.state.neurons.forget()
    before = (key.read_bytes(), env.read_bytes())
    second = setup(role, "--data", data, home=tmp_path)
    assert second.returncode == 0, second.stdout
    assert (key.read_bytes(), env.read_bytes()) == before
    assert f"kept {env} as it is" in second.stdout and f"kept {key}" in second.stdout
    variables = read_environment(env)
    assert variables[f"RELIQUARY_{role.upper()}_CHAIN"] == chain
    assert f"RELIQUARY_{role.upper()}_GATEWAY" not in variables
    assert gateway.origin in second.stdout
    assert told(second, "start") == [f"reliquary {role} --env {env}"]
    # Its words are for a terminal alone.
    words = first.stdout + first.stderr
    assert not any(word in words for word in secret_words(key))


def secret_words(key: Path) -> list[str]:
    (phrase,) = re.findall(r'"secretPhrase": ?"([a-z ]+)"', key.read_text())
    seed = re.findall(r'"(?:secretSeed|privateKey)": ?"0x([0-9a-f]+)"', key.read_text())
    return [phrase, *seed]


def test_on_a_terminal_it_asks_and_shows_the_words_once(
    gateway: LiveGateway, chain: str, tmp_path: Path
):
    answers = [chain, str(tmp_path / "data")]
    printed = on_terminal("miner", ["Data folder", "Chain"], answers[::-1], tmp_path)
    (words,) = re.findall(r"write them down: ([a-z ]+)", printed)
    keypair = load_hotkey(tmp_path / "data" / "miner-hotkey.json")
    made = Keypair.create_from_mnemonic(words.strip())
    assert made.ss58_address == keypair.ss58_address
    again = on_terminal("miner", ["Data folder"], [answers[1]], tmp_path)
    assert words.strip() not in again and "write them down" not in again


def on_terminal(role: str, questions: list[str], answers: list[str], home: Path) -> str:
    """Run a set-up on a terminal, answer each question, and return all that was shown."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, role, "setup"], stdin=theirs, stdout=theirs, stderr=theirs, env=environment(home)
    )
    os.close(theirs)
    shown, left = "", list(zip(questions, answers, strict=True))
    until = time.monotonic() + 120
    while time.monotonic() < until:
        readable, _, _ = select.select([ours], [], [], 1)
        if not readable:
            continue
        try:
            piece = os.read(ours, 65_536)
        except OSError:
            break
        shown += piece.decode()
        if left and left[0][0] in shown:
            os.write(ours, f"{left.pop(0)[1]}\n".encode())
    assert process.wait(10) in (0, 1)
    os.close(ours)
    assert not left
    return shown.replace("\r\n", "\n")


def test_a_hotkey_comes_from_a_wallet_and_is_never_replaced(
    gateway: LiveGateway, chain: str, tmp_path: Path
):
    wallets = tmp_path / ".bittensor" / "wallets"
    for name in ("one", "two"):
        load_or_create_hotkey(wallets / "cold" / "hotkeys" / name)
    (wallets / "cold" / "hotkeys" / "onepub.txt").write_text("public")
    (wallets / "cold" / "coldkey").write_text("secret")
    assert found(wallets) == ["cold/one", "cold/two"]
    data = ("--data", tmp_path / "data", "--chain", chain)
    done = setup("miner", *data, "--wallet", "cold/one", home=tmp_path)
    key = tmp_path / "data" / "miner-hotkey.json"
    assert load_hotkey(key).ss58_address in done.stdout
    assert key.read_bytes() == (wallets / "cold" / "hotkeys" / "one").read_bytes()
    assert "no role needs it" in done.stdout
    before = key.read_bytes()
    other = setup("miner", *data, "--wallet", "cold/two", home=tmp_path)
    assert other.returncode == 1 and "name another file with --hotkey" in other.stderr
    assert key.read_bytes() == before


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "--chain is needed"),
        (("--chain", "bittensor:x"), "--chain: 'bittensor:x' is not of the form"),
        (("--chain", "local:c", "--gateway", "nowhere"), "--gateway: "),
        (("--chain", "local:c", "--engine", "magic"), "--engine: "),
        (("--chain", "local:c", "--wallet", "x"), "WALLET/HOTKEY"),
        (("--chain", "local:c", "--wallet", "../x"), "WALLET/HOTKEY"),
        (("--chain", "local:c", "--wallet", "a/b"), "cannot read the hotkey"),
        (("--chain", "local:c", "--data", "file/x"), "choose another with --data"),
        (("--chain", "local:c", "--env", "file/x.env"), "file/x.env cannot be read"),
        (("--chain", "local:c", "--env", "broken.env"), "broken.env, line 1: no closing"),
    ],
)
def test_mistakes_are_told_in_a_line_and_nothing_is_written(
    options: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    (tmp_path / "broken.env").write_text("A='")
    done = setup("miner", "--data", tmp_path / "data", *options, home=tmp_path)
    assert done.returncode in (1, 2)
    assert done.stderr.startswith("reliquary: ") and done.stderr.count("\n") == 1
    assert said in done.stderr
    assert not (tmp_path / "data" / "miner.env").exists()


def test_an_operators_own_lines_stay(gateway: LiveGateway, chain: str, tmp_path: Path):
    env = tmp_path / "miner.env"
    env.write_text("# mine\nRELIQUARY_MINER_THREADS=3\nRELIQUARY_MINER_ENGINE=vllm\n")
    data = ("--env", env, "--data", tmp_path, "--chain", chain)
    setup("miner", *data, home=tmp_path)
    lines = env.read_text().splitlines()
    assert lines[:3] == ["# mine", "RELIQUARY_MINER_THREADS=3", "RELIQUARY_MINER_ENGINE=vllm"]
    assert stat.S_IMODE(env.stat().st_mode) == 0o600
    changed = setup("miner", "--env", env, "--engine", "transformers", home=tmp_path)
    assert "RELIQUARY_MINER_ENGINE was vllm" in changed.stdout
    lines[2] = "RELIQUARY_MINER_ENGINE=transformers"
    assert env.read_text().splitlines() == lines


def test_a_chain_without_a_gateway_is_said(tmp_path: Path):
    LocalChain(tmp_path / "chain.sqlite", time.time)
    done = setup("miner", "--data", tmp_path, "--chain", tmp_path / "chain.sqlite", home=tmp_path)
    assert done.returncode == 1
    assert "the chain names no owner of the subnet" in done.stdout


def test_a_real_networks_commands_are_told() -> None:
    """What is printed is what the installed btcli takes."""
    from bittensor.cli.main import app
    from typer.main import get_command

    from protocol.chain.option import BittensorOption
    from scripts.doctor.chain import to_register

    option = BittensorOption("wss://node.example:443", 81)
    said = to_register(option, "5F" + "x" * 46, Path("key"), validator=False)
    words = said.split("btcli ")[1].split()
    command = get_command(app)
    for word in ("subnets", "register"):
        assert words.pop(0) == word
        command = command.commands[word]  # pyright: ignore[reportAttributeAccessIssue]
    options = {name for param in command.params for name in param.opts}
    assert {word for word in words if word.startswith("--")} <= options
