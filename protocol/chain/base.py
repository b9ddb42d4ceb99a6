"""What the roles read from the chain, whichever chain it is.

Nodes are named by their hotkey: a UID is only a slot that another hotkey may hold a block later.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

BLOCK_SECONDS = 12.0


class ChainError(Exception):
    """The chain refused or could not be read; the message says what to do."""


class NotRegistered(ChainError):
    """The hotkey holds no UID of this subnet."""


class SubnetFull(ChainError):
    """Every UID of the subnet is taken."""


@dataclass(frozen=True)
class Head:
    """The newest block: its number and its hash (64 hex digits)."""

    block: int
    block_hash: str


@dataclass(frozen=True)
class Neuron:
    """One registered hotkey at a block; ``stake_rao`` is in rao (1e-9 of a token)."""

    hotkey: str
    coldkey: str
    uid: int
    registered_at_block: int
    stake_rao: int
    validator_permit: bool


@dataclass(frozen=True)
class Snapshot:
    """All neurons as they were at one block, by hotkey and in the order of their UIDs."""

    block: int
    block_hash: str
    neurons: Mapping[str, Neuron] = field(repr=False)


class Chain(Protocol):
    """The reads that every role needs. Each may raise ``ChainError``."""

    async def head(self) -> Head:
        """Return the newest block."""
        ...

    async def block_hash(self, block: int) -> str:
        """Return the hash (64 hex digits) of a block that is not newer than the head."""
        ...

    async def snapshot(self) -> Snapshot:
        """Return all neurons at the newest block, read at one instant."""
        ...
