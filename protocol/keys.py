"""Hotkeys: the sr25519 keys that nodes and the gateway sign with, in bittensor's keyfile format."""

import contextlib
import os
import tempfile
from pathlib import Path
from typing import Any

from bittensor_core import (
    CRYPTO_SR25519,
    KeyfileError,
    Keypair,
    deserialize_keypair_from_keyfile_data,
    keyfile_data_is_encrypted,
    serialized_keypair_to_keyfile_data,
    verify,
)

from protocol.documents import digest


class HotkeyError(ValueError):
    """A hotkey file cannot be used; the message says which and why."""


def load_or_create_hotkey(path: Path) -> Keypair:
    """Load the hotkey at ``path``, or make one there (mode 0600) when no file exists.

    Two processes that create it at once end with one and the same key.

    Raises:
        HotkeyError: the file is encrypted, damaged, readable by others, or cannot be made.
    """
    if not path.exists():
        try:
            _create(path)
        except OSError as error:
            raise HotkeyError(f"cannot make the hotkey {path}: {error.strerror}") from error
    return load_hotkey(path)


def load_hotkey(path: Path) -> Keypair:
    """Load an unencrypted hotkey file as ``btcli`` writes it.

    Raises:
        HotkeyError: there is no such file, it is encrypted, damaged, or readable by others.
    """
    try:
        mode = path.stat().st_mode & 0o777
        data = path.read_bytes()
    except OSError as error:
        raise HotkeyError(f"cannot read the hotkey {path}: {error.strerror}") from error
    if mode & 0o077:
        raise HotkeyError(f"{path} can be read by others; run: chmod 600 {path}")
    if keyfile_data_is_encrypted(data):
        raise HotkeyError(f"{path} is encrypted; a node needs an unencrypted hotkey file")
    try:
        return deserialize_keypair_from_keyfile_data(data)
    except (KeyfileError, ValueError) as error:
        raise HotkeyError(f"{path} is not a hotkey file: {error}") from error


def sign_statement(keypair: Keypair, statement: dict[str, Any]) -> str:
    """Return the signature (128 hex digits) over the digest of ``statement``."""
    return bytes(keypair.sign(digest(statement))).hex()


def verify_statement(hotkey: str, statement: dict[str, Any], signature: str) -> bool:
    """Say whether ``signature`` (hex) is ``hotkey``'s over ``statement``; bad hex is False."""
    try:
        return verify_digest(hotkey, digest(statement), signature)
    except ValueError:
        return False


def verify_digest(hotkey: str, statement_digest: bytes, signature: str) -> bool:
    """Say whether ``signature`` (hex) is ``hotkey``'s over a statement's digest of 32 bytes."""
    try:
        return bool(verify(statement_digest, bytes.fromhex(signature), hotkey, CRYPTO_SR25519))
    except ValueError:
        return False


def _create(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    keypair = Keypair.create_from_mnemonic(Keypair.generate_mnemonic())
    # mkstemp makes the file with mode 0600.
    descriptor, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with os.fdopen(descriptor, "wb") as file:
        file.write(serialized_keypair_to_keyfile_data(keypair))
        file.flush()
        os.fsync(file.fileno())
    # A hard link never replaces a file, so the first of two creators wins whole.
    with contextlib.suppress(FileExistsError):
        os.link(draft, path)
    Path(draft).unlink()
