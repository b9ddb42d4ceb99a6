"""What a set-up settles: the variables of a role's environment file, each given, kept or chosen."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from protocol.chain.option import LocalOption, parse_chain
from scripts.node_setup.asking import SetupError

NodeRole = Literal["miner", "validator"]
# Where the units of deploy/ expect a role's data.
SYSTEM_DATA = Path("/var/lib/reliquary")
OWN_DATA = Path(".reliquary")
# What the compose files of deploy/ read besides: where the file itself and the data lie, and whose.
ENV_FILE, DATA, USER = "RELIQUARY_ENV_FILE", "RELIQUARY_DATA", "RELIQUARY_USER"
HUB = "HF_ENDPOINT"


@dataclass(frozen=True)
class Given:
    """What the command line said; None is kept as it is, asked, or chosen.

    Attributes:
        role: whose set-up it is.
        computes: the engine of a miner, the device of a validator.
        wallets: the folder that btcli keeps wallets in.
    """

    role: NodeRole
    chain: str | None = None
    data: Path | None = None
    env: Path | None = None
    hotkey: Path | None = None
    wallet: str | None = None
    wallets: Path | None = None
    gateway: str | None = None
    gateway_hotkey: str | None = None
    computes: str | None = None


@dataclass
class Settled:
    """Variables by name as they will be, and what changed of those that were there.

    Attributes:
        before: as the file had them.
        now: as they will be.
    """

    before: Mapping[str, str]
    now: dict[str, str] = field(default_factory=dict)

    def set(self, name: str, given: str | None, choose: Callable[[], str | None]) -> str | None:
        """Settle a variable: what was given, else what is there, else what is chosen."""
        value = given if given is not None else self.before.get(name)
        if value is None:
            value = choose()
        if value is not None:
            self.now[name] = value
        return value

    @property
    def changes(self) -> dict[str, str]:
        """What has to be written."""
        return {name: value for name, value in self.now.items() if self.before.get(name) != value}

    def summary(self) -> str:
        """Say how many variables are new, changed and kept."""
        changed = [name for name in self.changes if name in self.before]
        parts = [f"{len(self.changes) - len(changed)} new", f"{len(self.before)} were there"]
        parts += [f"{name} was {self.before[name]}" for name in changed]
        return ", ".join(parts)


def variable(role: NodeRole, name: str) -> str:
    """Return the name of a role's setting in the environment."""
    return f"RELIQUARY_{role.upper()}_{name.upper()}"


def default_data(home: Path) -> Path:
    """Return where a role's data goes: the system's place where this user may write it."""
    return SYSTEM_DATA if os.access(SYSTEM_DATA, os.W_OK) else home / OWN_DATA


def checked_chain(text: str) -> str:
    """Return a ``--chain`` that does not depend on the folder that a role is started in.

    Raises:
        SetupError: it has no form of one.
    """
    try:
        option = parse_chain(text)
    except ValueError as error:
        raise SetupError(f"--chain: {error}") from error
    if isinstance(option, LocalOption):
        return str(LocalOption(option.path.absolute()))
    return str(option)
