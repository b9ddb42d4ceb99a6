"""``LocalChain``: a subnet in one SQLite file, for one machine, tests and the demo.

Several processes may use the file at once: every change is one immediate transaction. The file
keeps a rollback journal rather than a write-ahead log, since many processes both write and
checkpoint here, which older SQLite libraries do not survive under a write-ahead log.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from hashlib import sha256
from pathlib import Path

from protocol.chain.base import (
    BLOCK_SECONDS,
    ChainError,
    Head,
    Neuron,
    NotRegistered,
    Snapshot,
    SubnetFull,
)

BUSY_SECONDS = 30.0
MAX_UIDS = 256

_SCHEMA = """
CREATE TABLE IF NOT EXISTS subnet (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    genesis REAL NOT NULL,
    block_seconds REAL NOT NULL CHECK (block_seconds > 0),
    max_uids INTEGER NOT NULL CHECK (max_uids > 0)
);
CREATE TABLE IF NOT EXISTS neuron (
    uid INTEGER PRIMARY KEY,
    hotkey TEXT NOT NULL UNIQUE,
    coldkey TEXT NOT NULL,
    registered_at_block INTEGER NOT NULL,
    stake_rao INTEGER NOT NULL CHECK (stake_rao >= 0),
    validator_permit INTEGER NOT NULL CHECK (validator_permit IN (0, 1))
);
"""
_COLUMNS = "hotkey, coldkey, uid, registered_at_block, stake_rao, validator_permit"


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
        self._path = path
        self._clock = clock
        with self._connection() as connection:
            connection.executescript(_SCHEMA)
            connection.execute(
                "INSERT OR IGNORE INTO subnet VALUES (1, ?, ?, ?)",
                (clock(), block_seconds, max_uids),
            )
            row = connection.execute("SELECT genesis, block_seconds, max_uids FROM subnet")
            self._genesis, self._block_seconds, self._max_uids = row.fetchone()

    async def head(self) -> Head:
        """Return the block that the clock is in, and its hash."""
        return self._head()

    async def block_hash(self, block: int) -> str:
        """Return the hash of a block that is not newer than the head.

        Raises:
            ChainError: there is no such block yet.
        """
        if not 0 <= block <= self._head().block:
            raise ChainError(f"block {block} is not there yet; the head is {self._head().block}")
        return self._hash(block)

    async def snapshot(self) -> Snapshot:
        """Return all neurons at the newest block.

        Raises:
            ChainError: the file cannot be read.
        """
        return await asyncio.to_thread(self._snapshot)

    def register(
        self, hotkey: str, coldkey: str, *, validator_permit: bool = False, stake_rao: int = 0
    ) -> Neuron:
        """Give ``hotkey`` the lowest free UID; a hotkey that has one keeps it, with the new permit.

        Raises:
            SubnetFull: no UID is free.
            ChainError: the hotkey belongs to another coldkey, or the file cannot be written.
        """
        with self._transaction() as connection:
            known = _find(connection, hotkey)
            if known is not None and known.coldkey != coldkey:
                raise ChainError(f"hotkey {hotkey} is registered by another coldkey")
            if known is None:
                uid, block = self._free_uid(connection), self._head().block
            else:
                uid, block = known.uid, known.registered_at_block
            neuron = Neuron(hotkey, coldkey, uid, block, stake_rao, validator_permit)
            connection.execute(
                f"INSERT OR REPLACE INTO neuron ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)",
                (hotkey, coldkey, uid, block, stake_rao, int(validator_permit)),
            )
        return neuron

    def deregister(self, hotkey: str) -> None:
        """Free the UID of ``hotkey`` for the next registration.

        Raises:
            NotRegistered: it has none.
        """
        with self._transaction() as connection:
            if not connection.execute("DELETE FROM neuron WHERE hotkey = ?", (hotkey,)).rowcount:
                raise NotRegistered(f"hotkey {hotkey} is not registered")

    def _head(self) -> Head:
        block = max(0, int((self._clock() - self._genesis) // self._block_seconds))
        return Head(block, self._hash(block))

    def _hash(self, block: int) -> str:
        text = f"reliquary-local-chain/1 {self._genesis!r} {block}"
        return sha256(text.encode("ascii")).hexdigest()

    def _snapshot(self) -> Snapshot:
        with self._connection() as connection:
            head = self._head()
            rows = connection.execute(f"SELECT {_COLUMNS} FROM neuron ORDER BY uid").fetchall()
        neurons = [_neuron(row) for row in rows]
        return Snapshot(head.block, head.block_hash, {neuron.hotkey: neuron for neuron in neurons})

    def _free_uid(self, connection: sqlite3.Connection) -> int:
        taken = {uid for (uid,) in connection.execute("SELECT uid FROM neuron")}
        for uid in range(self._max_uids):
            if uid not in taken:
                return uid
        raise SubnetFull(f"all {self._max_uids} UIDs are taken; deregister a hotkey first")

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(
                sqlite3.connect(self._path, timeout=BUSY_SECONDS, isolation_level=None)
            ) as connection:
                yield connection
        except sqlite3.Error as error:
            raise ChainError(f"the chain file {self._path} cannot be used: {error}") from error

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")


def _find(connection: sqlite3.Connection, hotkey: str) -> Neuron | None:
    query = f"SELECT {_COLUMNS} FROM neuron WHERE hotkey = ?"
    row = connection.execute(query, (hotkey,)).fetchone()
    return None if row is None else _neuron(row)


def _neuron(row: tuple[str, str, int, int, int, int]) -> Neuron:
    return Neuron(*row[:5], validator_permit=bool(row[5]))
