"""``--chain local:PATH | bittensor:NETWORK:NETUID``: which chain a role is on."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator
from pydantic_settings import NoDecode

from protocol.chain.base import Chain
from protocol.chain.local import LocalChain

FORMS = "local:PATH or bittensor:NETWORK:NETUID"
MAX_NETUID = 65_535


@dataclass(frozen=True)
class LocalOption:
    """The local chain in the file at ``path``."""

    path: Path

    def open(self, clock: Callable[[], float]) -> Chain:
        """Return the chain.

        Raises:
            ChainError: the file cannot be used.
        """
        return LocalChain(self.path, clock)

    def __str__(self) -> str:
        return f"local:{self.path}"


@dataclass(frozen=True)
class BittensorOption:
    """Subnet ``netuid`` of a Bittensor network: its name, or a ``ws://`` or ``wss://`` address."""

    network: str
    netuid: int

    def open(self, clock: Callable[[], float]) -> Chain:
        """Return the chain, not connected yet.

        Raises:
            ChainError: there is no network of this name.
        """
        # The client takes a while to import, and few commands need it.
        from protocol.chain.bittensor_chain import BittensorChain

        return BittensorChain(self.network, self.netuid, clock)

    def __str__(self) -> str:
        return f"bittensor:{self.network}:{self.netuid}"


ChainOption = LocalOption | BittensorOption


def parse_chain(given: str | Path | ChainOption) -> ChainOption:
    """Read an option; a path without ``local:`` before it is one of a local chain too.

    Raises:
        ValueError: it has neither form.
    """
    if isinstance(given, ChainOption):
        return given
    text = str(given)
    kind, _, rest = text.partition(":")
    if kind == "bittensor":
        # An address has colons of its own.
        network, _, number = rest.rpartition(":")
        if not network or not number.isascii() or not number.isdigit():
            raise ValueError(f"{text!r} is not of the form bittensor:NETWORK:NETUID")
        if int(number) > MAX_NETUID:
            raise ValueError(f"a netuid is at most {MAX_NETUID}, not {number}")
        return BittensorOption(network, int(number))
    path = rest if kind == "local" else text
    if not path:
        raise ValueError(f"{text!r} names no chain; give {FORMS}")
    return LocalOption(Path(path))


# A field of a role's settings.
ChainSetting = Annotated[ChainOption, NoDecode, BeforeValidator(parse_chain)]
