"""What the roles read from the chain, whichever chain it is.

Nodes are named by their hotkey: a UID is only a slot that another hotkey may hold a block later.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from bittensor_core import Keypair

BLOCK_SECONDS = 12.0
U16_MAX = 65_535

Rule = Literal[
    "stake", "version_key", "rate_limit", "permit", "uids", "count", "max_weight", "other"
]


class ChainError(Exception):
    """The chain refused or could not be read; the message says what to do."""


class NotRegistered(ChainError):
    """The hotkey holds no UID of this subnet."""


class SubnetFull(ChainError):
    """Every UID of the subnet is taken."""


class StaleHead(ChainError):
    """The chain answers, but its newest block is too old to act on."""


class WeightsRefused(ChainError):
    """The chain does not take these weights now; ``rule`` says which of its rules they break."""

    def __init__(self, rule: Rule, message: str) -> None:
        super().__init__(message)
        self.rule: Rule = rule


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


@dataclass(frozen=True)
class Parameters:
    """The subnet's rules as they were at one block.

    Attributes:
        block: where they were read.
        tempo: length of an epoch in blocks.
        epoch: number of the epoch that ``block`` is in.
        epoch_block: the first block of that epoch.
        weights_rate_limit: blocks between two settings of weights by one hotkey.
        weights_version_key: the lowest version key taken; 0 takes every one.
        min_stake_rao: stake below which weights are refused.
        commit_reveal: weights are sealed when they are set and count from their reveal on.
        reveal_period_epochs: epochs between a commit and its reveal.
        immunity_blocks: blocks for which a newcomer's UID is not given to another.
        min_weights: entries that weights must have at least.
        max_weight: largest share of one entry, of 65,535.
        max_uids: UIDs of the subnet.
        owner_hotkey: the subnet owner's; what is paid to it is burnt. None: not known.
    """

    block: int
    tempo: int
    epoch: int
    epoch_block: int
    weights_rate_limit: int
    weights_version_key: int
    min_stake_rao: int
    commit_reveal: bool
    reveal_period_epochs: int
    immunity_blocks: int
    min_weights: int
    max_weight: int
    max_uids: int
    owner_hotkey: str | None

    @property
    def reveal_block(self) -> int:
        """First block of the epoch in which what is committed in this one is revealed."""
        return self.epoch_block + self.tempo * self.reveal_period_epochs


@dataclass(frozen=True)
class Submission:
    """Weights that the chain accepted, which is not yet that they count.

    Attributes:
        block: the block that includes them.
        reveal_block: the block from which on they are revealed; None: they count at once.
    """

    block: int
    reveal_block: int | None


@dataclass(frozen=True)
class WeightRow:
    """What one hotkey's weights are at a block, as far as they count.

    Attributes:
        block: where they were read.
        updated_at_block: when they were last set or, under commit-reveal, committed.
        weights: u16 by hotkey, of those alone that were registered when they were set.
    """

    block: int
    updated_at_block: int
    weights: Mapping[str, int] = field(repr=False)


class Chain(Protocol):
    """What the roles ask of a chain. Each method may raise ``ChainError``, within bounded time."""

    async def check(self) -> None:
        """Check that this release can use the chain; to be asked at a start."""
        ...

    async def head(self) -> Head:
        """Return the newest block."""
        ...

    async def block_hash(self, block: int) -> str:
        """Return the hash (64 hex digits) of a block that is not newer than the head."""
        ...

    async def snapshot(self, block: int | None = None) -> Snapshot:
        """Return all neurons at one block, the newest where none is named."""
        ...

    async def parameters(self) -> Parameters:
        """Return the subnet's rules at the newest block."""
        ...

    async def set_weights(
        self, keypair: Keypair, weights: Mapping[str, int], version_key: int
    ) -> Submission:
        """Set (or, where the chain asks for it, commit) the weights of one validator.

        Args:
            keypair: the validator's hotkey.
            weights: u16 by hotkey, max-upscaled, as ``protocol.chain.weights`` makes them.
            version_key: which version of the scoring rules these follow.

        Raises:
            NotRegistered: the signer or a hotkey of ``weights`` is not registered.
            WeightsRefused: a rule of the chain forbids it now.
        """
        ...

    async def weight_row(self, hotkey: str) -> WeightRow:
        """Return the weights of one validator as they count at the newest block.

        Raises:
            NotRegistered: it is not registered.
        """
        ...

    async def publish_endpoint(self, keypair: Keypair, url: str) -> None:
        """Write on the chain where the holder of a registered hotkey is reached.

        Args:
            keypair: the hotkey.
            url: an origin of at most 128 bytes.
        """
        ...

    async def endpoint(self, hotkey: str) -> str | None:
        """Return what ``hotkey`` published last, or None. It is a stranger's text: check it."""
        ...

    async def aclose(self) -> None:
        """Let go of what is held; the chain can be used again afterwards."""
        ...
