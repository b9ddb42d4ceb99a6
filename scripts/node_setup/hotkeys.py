"""The node's own hotkey file: kept, taken from a wallet of btcli's, or made.

A node needs the hotkey alone. The file that it signs with lies in its data folder, so that what is
written beside it stays out of the wallet, and the coldkey can be on another machine.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from bittensor_core import Keypair, serialized_keypair_to_keyfile_data

from protocol.keys import HotkeyError, load_hotkey
from scripts.node_setup.asking import Asker, SetupError

NEW = "new"


@dataclass(frozen=True)
class Prepared:
    """A hotkey file that is ready: what happened, its address, and the words of a new one."""

    said: str
    address: str
    words: str | None = None


def prepare(file: Path, wallet: str | None, wallets: Path, asker: Asker) -> Prepared:
    """Return the node's hotkey; where there is none it is taken from a wallet, or made.

    Args:
        file: the node's own hotkey file.
        wallet: ``WALLET/HOTKEY`` to take it from; None asks, or makes a new one.
        wallets: the folder that btcli keeps wallets in.

    Raises:
        SetupError: a file cannot be used, or ``file`` is another hotkey than the wallet's.
    """
    try:
        if file.exists():
            return _kept(file, wallet, wallets)
        if wallet is None:
            wallet = _chosen(wallets, asker)
        if wallet != NEW:
            return _taken(file, wallet, wallets)
        keypair = _made(file)
    except (HotkeyError, OSError) as error:
        raise SetupError(str(error)) from error
    return Prepared(f"made {file}", *keypair)


def found(wallets: Path) -> list[str]:
    """Return the hotkeys of a wallets' folder as ``WALLET/HOTKEY``, sorted."""
    return sorted(
        f"{path.parent.parent.name}/{path.name}"
        for path in wallets.glob("*/hotkeys/*")
        # Beside each may lie its public half.
        if path.is_file() and path.suffix != ".txt"
    )


def _kept(file: Path, wallet: str | None, wallets: Path) -> Prepared:
    address = load_hotkey(file).ss58_address
    if wallet not in (None, NEW):
        theirs = load_hotkey(_wallet_file(wallet, wallets)).ss58_address
        if theirs != address:
            raise SetupError(
                f"{file} is {address} already, and {wallet} is {theirs}; name another file with "
                "--hotkey or another folder with --data"
            )
    return Prepared(f"kept {file}", address)


def _chosen(wallets: Path, asker: Asker) -> str:
    names = found(wallets)
    if not names or not asker.present:
        return NEW
    return asker.offered(f"Hotkey to take ({', '.join(names)}), or {NEW}", NEW)


def _taken(file: Path, wallet: str, wallets: Path) -> Prepared:
    source = _wallet_file(wallet, wallets)
    address = load_hotkey(source).ss58_address
    _write(file, source.read_bytes())
    return Prepared(f"took {wallet} into {file}", address)


def _wallet_file(wallet: str, wallets: Path) -> Path:
    name, _, hotkey = wallet.partition("/")
    if not name or not hotkey or "/" in hotkey or ".." in (name, hotkey):
        raise SetupError(f"--wallet: {wallet!r} is not of the form WALLET/HOTKEY")
    return wallets / name / "hotkeys" / hotkey


def _made(file: Path) -> tuple[str, str]:
    words = Keypair.generate_mnemonic()
    keypair = Keypair.create_from_mnemonic(words)
    _write(file, serialized_keypair_to_keyfile_data(keypair))
    return keypair.ss58_address, words


def _write(file: Path, content: bytes) -> None:
    """Write a key that only this user can read; never over another."""
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as opened:
        opened.write(content)
        opened.flush()
        os.fsync(opened.fileno())
