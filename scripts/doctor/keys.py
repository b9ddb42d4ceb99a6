"""The keys on this machine: the hotkey that a role signs with, and one that has no place here."""

import stat
from pathlib import Path

from bittensor_core import Keypair

from protocol.keys import HotkeyError, load_hotkey
from scripts.doctor.finding import Finding, broken, doubtful, good

WALLETS = Path(".bittensor") / "wallets"


def hotkey(path: Path) -> tuple[Finding, Keypair | None]:
    """Read a hotkey file; say whether anybody else could read it or put another in its place."""
    if not path.exists():
        remedy = "reliquary miner setup and reliquary validator setup make one, or take your own"
        return broken("hotkey", f"there is no {path}", remedy), None
    try:
        keypair = load_hotkey(path)
    except HotkeyError as error:
        return broken("hotkey", str(error), f"chmod 600 {path}, or name another file"), None
    folder = path.absolute().parent
    mode = folder.stat().st_mode
    if mode & (stat.S_IWGRP | stat.S_IWOTH) and not mode & stat.S_ISVTX:
        seen = f"others can write {folder}, and so replace {path.name}"
        return doubtful("hotkey", seen, f"chmod go-w {folder}"), keypair
    return good("hotkey", f"{keypair.ss58_address} in {path}, mode 600"), keypair


def coldkeys(hotkey_file: Path, home: Path) -> list[Finding]:
    """Say where a coldkey lies on this machine, which no role needs.

    Args:
        hotkey_file: may lie in a wallet's folder.
        home: this user's, in which btcli keeps wallets.
    """
    wallets = {hotkey_file.absolute().parent.parent, *(home / WALLETS).glob("*")}
    return [
        doubtful(
            "coldkey",
            f"{wallet / 'coldkey'} is on this machine, and no role needs it",
            "keep it, and run btcli, on another machine: whoever breaks in here has your stake",
        )
        for wallet in sorted(wallets)
        if (wallet / "coldkey").exists()
    ]
