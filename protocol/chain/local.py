"""``LocalChain``: a subnet in one SQLite file, for one machine, tests and the demo.

It keeps the real chain's rules for neurons and weights; what it does not have is money: stake,
permits and the subnet's rules are what ``register`` and ``set_rules`` say. Several processes may
use the file at once.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import TypedDict, Unpack

from bittensor_core import Keypair

from protocol.chain.base import (
    BLOCK_SECONDS,
    ChainError,
    Head,
    Neuron,
    NotRegistered,
    Parameters,
    Snapshot,
    Submission,
    SubnetFull,
    WeightRow,
)
from protocol.chain.endpoint import checked_endpoint
from protocol.chain.local_file import LocalFile, drop_neuron, neurons_at, neurons_now, put_neuron
from protocol.chain.local_weights import (
    check_submission,
    prune_candidate,
    reveal_due,
    submit,
    weight_row,
)
from protocol.chain.rules import registered

MAX_UIDS = 256

_RULES = (
    "tempo, weights_rate_limit, weights_version_key, min_stake_rao, commit_reveal,"
    " reveal_period_epochs, immunity_blocks, min_weights, max_weight, owner_hotkey"
)


class Rules(TypedDict, total=False):
    """What ``set_rules`` changes; each as in ``Parameters``."""

    tempo: int
    weights_rate_limit: int
    weights_version_key: int
    min_stake_rao: int
    commit_reveal: bool
    reveal_period_epochs: int
    immunity_blocks: int
    min_weights: int
    max_weight: int
    owner_hotkey: str | None


class LocalChain:
    """A subnet kept in the file at ``path``, made at its first use.

    Args:
        path: the file; its folder must exist.
        clock: seconds since the epoch. Blocks are counted from the clock at the file's making.
        block_seconds: length of a block; the file's own value holds once it exists.
        max_uids: number of UIDs; the file's own value holds once it exists.
    """

    def __init__(
        self,
        path: Path,
        clock: Callable[[], float],
        block_seconds: float = BLOCK_SECONDS,
        max_uids: int = MAX_UIDS,
    ) -> None:
        self._clock = clock
        self._file = LocalFile(path)
        with self._file.connection() as connection:
            connection.execute(
                "INSERT OR IGNORE INTO subnet VALUES (1, ?, ?, ?)",
                (clock(), block_seconds, max_uids),
            )
            connection.execute("INSERT OR IGNORE INTO rules (one) VALUES (1)")
            row = connection.execute("SELECT genesis, block_seconds, max_uids FROM subnet")
            self._genesis, self._block_seconds, self._max_uids = row.fetchone()

    async def check(self) -> None:
        """Check that the file can be read.

        Raises:
            ChainError: it cannot.
        """
        await self.parameters()

    async def head(self) -> Head:
        """Return the block that the clock is in, and its hash."""
        return self._head()

    async def block_hash(self, block: int) -> str:
        """Return the hash of a block that is not newer than the head.

        Raises:
            ChainError: there is no such block yet.
        """
        self._check_there(block)
        return self._hash(block)

    async def snapshot(self, block: int | None = None) -> Snapshot:
        """Return all neurons at a block, the newest where none is named.

        Raises:
            ChainError: the file cannot be read, or there is no such block yet.
        """
        return await asyncio.to_thread(self._snapshot, block)

    async def parameters(self) -> Parameters:
        """Return the subnet's rules at the newest block.

        Raises:
            ChainError: the file cannot be read.
        """
        return await asyncio.to_thread(self._parameters)

    async def set_weights(
        self, keypair: Keypair, weights: Mapping[str, int], version_key: int
    ) -> Submission:
        """Set (or commit) the weights of one validator, as ``Chain.set_weights`` says."""
        hotkey = keypair.ss58_address
        await asyncio.to_thread(self._check_submission, hotkey, weights, version_key)
        return await asyncio.to_thread(self.set_weights_of, hotkey, weights, version_key)

    async def weight_row(self, hotkey: str) -> WeightRow:
        """Return the weights of one validator as they count now.

        Raises:
            NotRegistered: it is not registered.
        """
        return await asyncio.to_thread(self._weight_row, hotkey)

    async def publish_endpoint(self, keypair: Keypair, url: str) -> None:
        """Write down where the holder of a registered hotkey is reached.

        Raises:
            NotRegistered: it is not registered.
            ChainError: ``url`` is no origin, or too long.
        """
        await asyncio.to_thread(self._publish, keypair.ss58_address, checked_endpoint(url))

    async def endpoint(self, hotkey: str) -> str | None:
        """Return what ``hotkey`` published last, or None."""
        return await asyncio.to_thread(self._endpoint, hotkey)

    async def aclose(self) -> None:
        """Nothing is held between two calls."""

    def register(
        self, hotkey: str, coldkey: str, *, validator_permit: bool = False, stake_rao: int = 0
    ) -> Neuron:
        """Give ``hotkey`` the lowest free UID; a hotkey that has one keeps it, with the new permit.

        Where no UID is free, the least weighted hotkey past its immunity makes room.

        Raises:
            SubnetFull: no UID is free, and all are immune.
            ChainError: the hotkey belongs to another coldkey, or the file cannot be written.
        """
        with self._file.transaction() as connection:
            rules = self._revealed(connection)
            known = neurons_now(connection).get(hotkey)
            if known is not None and known.coldkey != coldkey:
                raise ChainError(f"hotkey {hotkey} is registered by another coldkey")
            if known is None:
                uid, block = self._make_room(connection, rules), rules.block
            else:
                uid, block = known.uid, known.registered_at_block
            neuron = Neuron(hotkey, coldkey, uid, block, stake_rao, validator_permit)
            put_neuron(connection, neuron, rules.block)
        return neuron

    def deregister(self, hotkey: str) -> None:
        """Free the UID of ``hotkey`` for the next registration.

        Raises:
            NotRegistered: it has none.
        """
        with self._file.transaction() as connection:
            rules = self._revealed(connection)
            if not drop_neuron(connection, hotkey, rules.block):
                raise NotRegistered(f"hotkey {hotkey} is not registered")

    def set_rules(self, **changes: Unpack[Rules]) -> None:
        """Change some of the subnet's rules, from the next call of anybody on.

        Raises:
            ChainError: a value is out of its range, or the file cannot be written.
        """
        with self._file.transaction() as connection:
            self._revealed(connection)
            for name, value in changes.items():
                if name not in Rules.__annotations__:
                    raise ChainError(f"there is no rule {name!r}")
                connection.execute(f"UPDATE rules SET {name} = ?", (value,))

    def set_weights_of(
        self, hotkey: str, weights: Mapping[str, int], version_key: int
    ) -> Submission:
        """Set (or commit) the weights of ``hotkey`` as the chain itself does, unchecked before.

        Raises:
            NotRegistered: ``hotkey`` or, where nothing is sealed, a target is not registered.
            WeightsRefused: a rule forbids it that is checked at once.
        """
        with self._file.transaction() as connection:
            rules = self._revealed(connection)
            return submit(connection, hotkey, weights, version_key, rules)

    def _head(self) -> Head:
        block = max(0, int((self._clock() - self._genesis) // self._block_seconds))
        return Head(block, self._hash(block))

    def _hash(self, block: int) -> str:
        text = f"reliquary-local-chain/1 {self._genesis!r} {block}"
        return sha256(text.encode("ascii")).hexdigest()

    def _check_there(self, block: int) -> None:
        head = self._head().block
        if not 0 <= block <= head:
            raise ChainError(f"block {block} is not there yet; the head is {head}")

    def _snapshot(self, block: int | None) -> Snapshot:
        if block is not None:
            self._check_there(block)
        with self._file.connection() as connection:
            # One instant: the newest neurons are read in the block that names them.
            connection.execute("BEGIN")
            if block is None:
                neurons = neurons_now(connection)
                block = self._head().block
            else:
                neurons = neurons_at(connection, block)
        return Snapshot(block, self._hash(block), neurons)

    def _parameters(self) -> Parameters:
        with self._file.connection() as connection:
            return self._rules(connection)

    def _rules(self, connection: sqlite3.Connection) -> Parameters:
        block = self._head().block
        tempo, rate, key, stake, commit, period, immunity, least, most, owner = connection.execute(
            f"SELECT {_RULES} FROM rules"
        ).fetchone()
        return Parameters(
            block=block,
            tempo=tempo,
            epoch=block // tempo,
            epoch_block=block // tempo * tempo,
            weights_rate_limit=rate,
            weights_version_key=key,
            min_stake_rao=stake,
            commit_reveal=bool(commit),
            reveal_period_epochs=period,
            immunity_blocks=immunity,
            min_weights=least,
            max_weight=most,
            max_uids=self._max_uids,
            owner_hotkey=owner,
        )

    def _revealed(self, connection: sqlite3.Connection) -> Parameters:
        """Bring the weights up to the head, before anything changes, and return the rules."""
        rules = self._rules(connection)
        reveal_due(connection, rules)
        return rules

    def _weight_row(self, hotkey: str) -> WeightRow:
        with self._file.transaction() as connection:
            rules = self._revealed(connection)
            return weight_row(connection, hotkey, rules.block)

    def _check_submission(self, hotkey: str, weights: Mapping[str, int], version_key: int) -> None:
        with self._file.transaction() as connection:
            rules = self._revealed(connection)
            check_submission(connection, hotkey, weights, version_key, rules)

    def _publish(self, hotkey: str, url: str) -> None:
        with self._file.transaction() as connection:
            registered(neurons_now(connection), hotkey)
            connection.execute("INSERT OR REPLACE INTO endpoint VALUES (?, ?)", (hotkey, url))

    def _endpoint(self, hotkey: str) -> str | None:
        with self._file.connection() as connection:
            found = connection.execute("SELECT url FROM endpoint WHERE hotkey = ?", (hotkey,))
            return next((url for (url,) in found), None)

    def _make_room(self, connection: sqlite3.Connection, rules: Parameters) -> int:
        taken = {neuron.uid for neuron in neurons_now(connection).values()}
        for uid in range(self._max_uids):
            if uid not in taken:
                return uid
        pruned = prune_candidate(connection, rules)
        if pruned is None:
            raise SubnetFull(
                f"all {self._max_uids} UIDs are taken by hotkeys that are immune or hold a permit; "
                "deregister one first"
            )
        drop_neuron(connection, pruned.hotkey, rules.block)
        return pruned.uid
