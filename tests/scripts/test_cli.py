import inspect
import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gateway.api_keys import authenticate
from gateway.settings import GatewaySettings
from gateway.store.engine import Store
from gateway.store.objects import open_objects
from miner.settings import MinerSettings
from scripts.cheats.kinds import KINDS, NODE_KINDS
from scripts.cli import main
from scripts.cli.miner import miner
from scripts.cli.validator import validator
from validator.settings import ValidatorSettings

HEAVY = ("torch", "vllm", "bittensor", "fastapi", "transformers", "numba", "sqlalchemy")
ROLES = ("up", "gateway", "miner", "validator", "hub")

LOADED = f"""
import sys
from scripts.cli import main
for arguments in ([], *([role, "--help"] for role in {ROLES!r}), ["bench", "--help"]):
    sys.argv = ["reliquary", *arguments]
    try:
        main()
    except SystemExit:
        pass
print("LOADED", *[name for name in {HEAVY!r} if name in sys.modules])
"""


def reliquary(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process of its own, as a user does."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RELIQUARY_")}
    return subprocess.run(
        [sys.executable, "-m", "scripts.cli", *arguments],
        capture_output=True,
        text=True,
        env={**kept, **environment},
        timeout=120,
    )


def test_help_loads_nothing_heavy():
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "LOADED", done.stdout + done.stderr


def test_help_names_every_command():
    shown = reliquary("--help").stdout
    for name in (*ROLES, "keys", "accounts", "chain", "bench", "tiny-model"):
        assert re.search(rf"^\s+{name}\s", shown, re.MULTILINE), name


@pytest.mark.parametrize(
    ("command", "settings"), [(miner, MinerSettings), (validator, ValidatorSettings)]
)
def test_every_option_of_a_node_is_a_setting_and_how_it_waits_an_option(command, settings):
    options = set(inspect.signature(command.registered_callback.callback).parameters)
    options -= {"context", "env"}
    assert options - set(settings.model_fields) == set()
    assert {"wait_seconds", "switch_seconds"} <= options


def test_up_lists_the_kinds_of_cheat():
    shown = " ".join(reliquary("up", "--help").stdout.split())
    for name, kind in (KINDS | NODE_KINDS).items():
        assert f"{name}: {kind.description}" in shown


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("gateway",), "--data: is needed"),
        (("gateway", "--data", "x", "--port", "70000"), "--port: Input should be less than"),
        (
            ("gateway", "--data", "x", "--lease-seconds", "5"),
            "heartbeat_seconds must be below lease_seconds",
        ),
        (("miner",), "--gateway: is needed"),
        (("validator", "--hotkey", "k", "--gateway", "nowhere"), "--gateway: "),
        (("up", "--cheat", "lazy"), "there is no cheat 'lazy'; the kinds are own-random"),
        (("keys", "create"), "--data: is needed"),
    ],
)
def test_wrong_use_ends_with_one_line_and_status_2(
    arguments: tuple[str, ...],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.setattr(sys, "argv", ["reliquary", *arguments])
    with pytest.raises(SystemExit) as exit_status:
        main()
    shown = capsys.readouterr().err
    assert exit_status.value.code == 2
    assert shown.startswith("reliquary: ")
    assert said in shown
    assert shown.count("\n") == 1


def test_an_unknown_option_has_no_traceback():
    done = reliquary("gateway", "--nonsense")
    assert done.returncode == 2
    assert "No such option" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_busy_port_ends_up_at_once(tmp_path: Path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = reliquary("up", "--data", str(tmp_path / "data"), "--port", str(port))
    assert done.returncode == 1
    assert f"reliquary: port {port} cannot be used" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_readable_hotkey_is_refused_with_the_remedy(tmp_path: Path):
    hotkey = tmp_path / "hotkey.json"
    hotkey.write_text("{}")
    hotkey.chmod(0o644)
    done = reliquary("validator", "--gateway", "http://127.0.0.1:9", "--hotkey", str(hotkey))
    assert done.returncode == 1
    assert f"chmod 600 {hotkey}" in done.stderr
    assert "Traceback" not in done.stderr


async def test_keys_create_prints_a_key_that_opens_the_default_account(tmp_path: Path):
    keys = [reliquary("keys", "create", "--data", str(tmp_path)).stdout.strip() for _ in range(2)]
    assert all(re.fullmatch(r"rlq_[0-9a-f]{48}", key) for key in keys)
    assert keys[0] != keys[1]
    account = reliquary("accounts", "create", "default", "--data", str(tmp_path)).stdout.strip()
    settings = GatewaySettings(data=tmp_path)
    store = await Store.open(
        settings.database_url.get_secret_value(), open_objects(settings.objects_url)
    )
    try:
        principals = [await authenticate(store, key, time.time_ns() // 10**6) for key in keys]
    finally:
        await store.close()
    assert {principal.account_id for principal in principals} == {account}
    assert not any(
        key in path.read_bytes() for key in map(str.encode, keys) for path in files(tmp_path)
    )


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_the_data_folder_may_come_from_the_environment(tmp_path: Path):
    done = reliquary("keys", "create", RELIQUARY_GATEWAY_DATA=str(tmp_path))
    assert done.returncode == 0
    assert (tmp_path / "gateway.sqlite").exists()


def test_an_account_name_is_checked(tmp_path: Path):
    done = reliquary("accounts", "create", "no spaces", "--data", str(tmp_path))
    assert done.returncode == 1
    assert "an account name is" in done.stderr


def test_chain_register_prints_uid_and_address(tmp_path: Path):
    chain, hotkey = str(tmp_path / "chain.sqlite"), str(tmp_path / "hotkey.json")
    first = reliquary("chain", "register", "--chain", chain, "--hotkey", hotkey).stdout
    again = reliquary("chain", "register", "--chain", chain, "--hotkey", hotkey, "--validator")
    assert re.fullmatch(r"0 5[1-9A-HJ-NP-Za-km-z]{47}\n", first)
    assert again.stdout == first
