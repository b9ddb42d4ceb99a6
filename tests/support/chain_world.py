"""A small subnet for the tests of chains: some keys, a clock set by hand, and a chain over it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from bittensor_core import Keypair
from chain_metadata import Metadata
from chain_node import NETUID, ChainNode

from protocol.chain.base import Chain
from protocol.chain.bittensor_chain import BittensorChain
from protocol.chain.local import LocalChain

KEYS = {
    name: Keypair.create_from_uri(f"//{name}")
    for name in ("Owner", "Validator", "Alice", "Bob", "Carol", "Stranger")
}
OWNER, VALIDATOR, ALICE, BOB, CAROL, STRANGER = (key.ss58_address for key in KEYS.values())
FIRST_BLOCK = 1_000
TEMPO = 100
RATE_LIMIT = 20
READ_SECONDS = 3.0
SUBMIT_SECONDS = 6.0


class Clock:
    """A clock that a test sets by hand."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


class ChainWorld:
    """The subnet: owner, one validator and two miners, at block ``FIRST_BLOCK`` and older.

    ``local`` is what changes it; ``chain`` is the chain under test, which may be the same.
    """

    def __init__(self, folder: Path) -> None:
        path = folder / "chain.sqlite"
        path.write_bytes(_first_file())
        self.clock = Clock()
        self.clock.now += 12 * FIRST_BLOCK
        self.local = LocalChain(path, self.clock)
        self.chain: Chain = self.local
        self.node: ChainNode | None = None

    def advance(self, blocks: int) -> None:
        """Let blocks pass."""
        self.clock.now += 12 * blocks

    def seal(self, weights: dict[str, int], version_key: int = 0) -> None:
        """Say what the next commit holds, where the chain cannot look into it."""
        if self.node is not None:
            self.node.seal(weights, version_key)

    def replace(self, hotkey: str, newcomer: str) -> None:
        """Give the UID of one hotkey to another."""
        self.local.deregister(hotkey)
        self.local.register(newcomer, newcomer)


@cache
def _first_file() -> bytes:
    """The subnet's file, made once for all tests of a process."""
    clock = Clock()
    with TemporaryDirectory() as folder:
        path = Path(folder) / "chain.sqlite"
        local = LocalChain(path, clock)
        local.set_rules(
            tempo=TEMPO, weights_rate_limit=RATE_LIMIT, min_stake_rao=500, owner_hotkey=OWNER
        )
        clock.now += 12 * 10
        local.register(OWNER, OWNER)
        local.register(VALIDATOR, VALIDATOR, validator_permit=True, stake_rao=1_000)
        local.register(ALICE, OWNER)
        local.register(BOB, BOB)
        return path.read_bytes()


@asynccontextmanager
async def behind_a_node(world: ChainWorld, metadata: Metadata) -> AsyncIterator[BittensorChain]:
    """Put the real client and a node between a test and the subnet."""
    world.node = ChainNode(world.local, world.clock, metadata)
    async with world.node.served() as url:
        chain = BittensorChain(url, NETUID, world.clock, READ_SECONDS, SUBMIT_SECONDS)
        world.chain = chain
        yield chain
        await chain.aclose()
