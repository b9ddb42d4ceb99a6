"""An operator's mistakes: each ends in one line that names what to change, and no traceback."""

import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.cli import main

ADDRESS = "http://127.0.0.1:9"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder: a text file, a folder, and a hotkey file of no use in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "garbage").write_text("garbage")
    (tmp_path / "garbage").chmod(0o600)
    return tmp_path


@pytest.fixture
def taken() -> Iterator[str]:
    """A port that something else serves on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield str(listener.getsockname()[1])


def complaint(command: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Run a command that must fail; return the line that it says why in."""
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as left:
        patch.setattr(sys, "argv", ["reliquary", *command.split()])
        main()
    assert left.value.code == 1
    errors = capsys.readouterr().err
    assert errors.startswith("reliquary: ")
    assert errors.count("\n") == 1
    assert "Errno" not in errors
    return errors


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("gateway --data file", "choose another with --data"),
        ("gateway --data file/x", "choose another with --data"),
        ("gateway --data new --hotkey garbage --port 0", "garbage is not a hotkey file"),
        ("gateway --data new --hotkey folder --port 0", "cannot read the hotkey folder"),
        ("gateway --data new --hotkey file/x --port 0", "cannot make the hotkey file/x"),
        ("gateway --data new --chain folder --port 0", "the chain file folder cannot be used"),
        ("gateway --data new --objects-url x --port 0", "file:///FOLDER or s3://BUCKET/PREFIX"),
        ("gateway --data new --host 192.0.2.1 --port 0", "choose others with --host and --port"),
        ("hub --data file", "choose another with --data"),
        ("hub --data new --host 192.0.2.1", "choose others with --host and --port"),
        ("keys create --data file", "is a file; give the gateway's data folder"),
        ("keys list --data nowhere", "is no gateway's data folder"),
        ("keys revoke x --data folder", "is no gateway's data folder"),
        ("accounts close x --data nowhere", "is no gateway's data folder"),
        ("accounts list --data file", "is a file; give the gateway's data folder"),
        (f"miner --gateway {ADDRESS} --hotkey file/x", "cannot make the hotkey file/x"),
        (f"validator --gateway {ADDRESS} --hotkey folder", "cannot read the hotkey folder"),
        ("chain register --chain folder --hotkey h", "the chain file folder cannot be used"),
        ("chain register --chain c --hotkey garbage", "garbage is not a hotkey file"),
    ],
)
def test_a_mistake_is_told_with_its_remedy(
    command: str, said: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said in complaint(command, capsys)
    assert not (folder / "nowhere").exists()


@pytest.mark.parametrize("command", ["gateway --data new", "hub --data new"])
def test_a_taken_port_is_told_with_its_remedy(
    command: str, folder: Path, taken: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said = complaint(f"{command} --port {taken}", capsys)
    assert f"port {taken} (Address already in use); choose others with --host and --port" in said
