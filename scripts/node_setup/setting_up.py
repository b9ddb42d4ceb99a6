"""The set-up of a node, step by step; what is there already is kept, nothing is destroyed."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from scripts.doctor.memory import gpu_gib
from scripts.env_file import EnvFileError, change_environment, read_environment
from scripts.node_setup import hotkeys
from scripts.node_setup.asking import Asker, SetupError
from scripts.node_setup.settings import (
    DATA,
    ENV_FILE,
    HUB,
    USER,
    Given,
    Settled,
    checked_chain,
    default_data,
    variable,
)

Say = Callable[[str, str], None]


@dataclass(frozen=True)
class SetUp:
    """A node that is set up but for its environment file, which ``write_down`` writes.

    Attributes:
        env: the environment file.
        data: the data folder.
    """

    env: Path
    data: Path
    settled: Settled

    @property
    def variables(self) -> dict[str, str]:
        """All variables of the file as they will be."""
        return dict(self.settled.before) | self.settled.now


def settle(given: Given, asker: Asker, home: Path, say: Say) -> SetUp:
    """Prepare the hotkey and settle every setting.

    Args:
        asker: asks what was not given.
        home: this user's.
        say: takes what a line is about, and the line.

    Raises:
        SetupError: something is missing, or cannot be used or made.
    """
    data = _data_folder(given, asker, home)
    env = (given.env or data / f"{given.role}.env").expanduser().absolute()
    settled = Settled(_read(env))
    _settle_network(given, settled, asker)
    _settle_hotkey(given, settled, data, asker, home, say)
    computes = "engine" if given.role == "miner" else "device"
    settled.set(variable(given.role, computes), given.computes, lambda: _computes(given))
    settled.set(variable(given.role, "models"), None, lambda: str(data / "models"))
    # Models come from the hub that this shell asks.
    settled.set(HUB, os.environ.get(HUB), lambda: None)
    settled.set(ENV_FILE, str(env), lambda: None)
    settled.set(DATA, str(data), lambda: None)
    settled.set(USER, None, lambda: f"{os.getuid()}:{os.getgid()}")
    return SetUp(env, data, settled)


def write_down(made: SetUp, say: Say) -> None:
    """Write what is new or changed into the environment file; the rest of it stays as it is.

    Raises:
        SetupError: it cannot be written.
    """
    env, settled = made.env, made.settled
    try:
        if not settled.changes:
            env.chmod(0o600)
            say("settings", f"kept {env} as it is")
            return
        env.parent.mkdir(parents=True, exist_ok=True)
        change_environment(env, settled.changes)
    except OSError as error:
        raise SetupError(
            f"cannot write {env}: {error.strerror}; choose another with --env"
        ) from error
    say("settings", f"wrote {env}, mode 600: {settled.summary()}")


def _read(env: Path) -> dict[str, str]:
    try:
        return read_environment(env)
    except EnvFileError as error:
        raise SetupError(str(error)) from error


def _data_folder(given: Given, asker: Asker, home: Path) -> Path:
    data = given.data
    if data is None and given.env is not None:
        # A second run is told by the first one's file.
        known = _read(given.env.expanduser()).get(DATA)
        data = None if known is None else Path(known)
    if data is None:
        data = Path(asker.offered("Data folder", str(default_data(home))))
    data = data.expanduser().absolute()
    try:
        data.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise SetupError(
            f"cannot use the data folder {data}: {error.strerror}; choose another with --data"
        ) from error
    return data


def _settle_network(given: Given, settled: Settled, asker: Asker) -> None:
    """Settle chain and gateway; a gateway that the chain names is not written down."""

    def ask() -> str | None:
        # A miner does without a chain where it is told its gateway; a validator sets weights.
        if given.role == "miner" and given.gateway is not None:
            return None
        return checked_chain(
            asker.needed("--chain", "Chain (bittensor:NETWORK:NETUID or local:PATH)")
        )

    chain = None if given.chain is None else checked_chain(given.chain)
    settled.set(variable(given.role, "chain"), chain, ask)
    settled.set(variable(given.role, "gateway"), given.gateway, lambda: None)
    settled.set(variable(given.role, "gateway_hotkey"), given.gateway_hotkey, lambda: None)


def _settle_hotkey(
    given: Given, settled: Settled, data: Path, asker: Asker, home: Path, say: Say
) -> None:
    own = None if given.hotkey is None else str(given.hotkey.expanduser().absolute())
    default = str(data / f"{given.role}-hotkey.json")
    file = settled.set(variable(given.role, "hotkey"), own, lambda: default) or default
    wallets = given.wallets or home / ".bittensor" / "wallets"
    prepared = hotkeys.prepare(Path(file), given.wallet, wallets.expanduser(), asker)
    say("hotkey", f"{prepared.said}: {prepared.address}")
    if prepared.words is None:
        return
    if asker.present:
        say("words", f"shown this once, write them down: {prepared.words}")
    else:
        say("words", "the file holds its words too: keep a copy of it where nobody else reads")


def _computes(given: Given) -> str:
    """Choose by the machine: a GPU is used where there is one."""
    has_gpu = gpu_gib() is not None
    if given.role == "miner":
        return "vllm" if has_gpu else "transformers"
    return "cuda" if has_gpu else "cpu"
