"""Hotkeys: created once, kept private, and their signatures bound to the statement."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from protocol.keys import HotkeyError, load_hotkey, load_or_create_hotkey
from protocol.keys import sign_statement as sign
from protocol.keys import verify_statement as verify


def test_a_created_hotkey_is_private_and_loads_again(tmp_path: Path) -> None:
    path = tmp_path / "hotkeys" / "miner"
    created = load_or_create_hotkey(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert load_hotkey(path).ss58_address == created.ss58_address
    assert [entry.name for entry in path.parent.iterdir()] == ["miner"]


def test_creators_at_once_end_with_one_key(tmp_path: Path) -> None:
    path = tmp_path / "hotkey"
    with ThreadPoolExecutor(8) as pool:
        keys = list(pool.map(lambda _: load_or_create_hotkey(path).ss58_address, range(16)))
    assert len(set(keys)) == 1


def test_a_hotkey_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "hotkey"
    load_or_create_hotkey(path)
    path.chmod(0o644)
    with pytest.raises(HotkeyError, match="chmod 600"):
        load_hotkey(path)


@pytest.mark.parametrize("content", [b"", b"{}", b"not a key", b'{"secretPhrase": 5}'])
def test_a_damaged_hotkey_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "hotkey"
    path.touch(0o600)
    path.write_bytes(content)
    with pytest.raises(HotkeyError, match="hotkey"):
        load_hotkey(path)


def test_a_missing_hotkey_is_named(tmp_path: Path) -> None:
    with pytest.raises(HotkeyError, match="nowhere"):
        load_hotkey(tmp_path / "nowhere")


def test_signatures_bind_key_and_statement(tmp_path: Path) -> None:
    one = load_or_create_hotkey(tmp_path / "one")
    two = load_or_create_hotkey(tmp_path / "two")
    signature = sign(one, {"type": "x/1", "n": 1})
    assert verify(one.ss58_address, {"n": 1, "type": "x/1"}, signature)
    assert not verify(one.ss58_address, {"type": "x/1", "n": 2}, signature)
    assert not verify(two.ss58_address, {"type": "x/1", "n": 1}, signature)


@pytest.mark.parametrize("signature", ["", "zz", "00", "0" * 128])
def test_a_malformed_signature_is_false_and_no_error(tmp_path: Path, signature: str) -> None:
    key = load_or_create_hotkey(tmp_path / "key")
    assert not verify(key.ss58_address, {"type": "x/1"}, signature)
    assert not verify("no address", {"type": "x/1"}, sign(key, {"type": "x/1"}))
