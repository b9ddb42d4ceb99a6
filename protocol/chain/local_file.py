"""The SQLite file of a ``LocalChain``: its tables, and how processes share it.

Several processes may use the file at once: every change is one immediate transaction. The file
keeps a rollback journal rather than a write-ahead log, since many processes both write and
checkpoint here, which older SQLite libraries do not survive under a write-ahead log.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from protocol.chain.base import ChainError, Neuron

BUSY_SECONDS = 30.0

# Every table is made where it is missing, so a file of an earlier version gains the later ones.
_SCHEMA = """
CREATE TABLE IF NOT EXISTS subnet (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    genesis REAL NOT NULL,
    block_seconds REAL NOT NULL CHECK (block_seconds > 0),
    max_uids INTEGER NOT NULL CHECK (max_uids > 0)
);
CREATE TABLE IF NOT EXISTS rules (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    tempo INTEGER NOT NULL DEFAULT 360 CHECK (tempo > 0),
    weights_rate_limit INTEGER NOT NULL DEFAULT 100 CHECK (weights_rate_limit >= 0),
    weights_version_key INTEGER NOT NULL DEFAULT 0 CHECK (weights_version_key >= 0),
    min_stake_rao INTEGER NOT NULL DEFAULT 0 CHECK (min_stake_rao >= 0),
    commit_reveal INTEGER NOT NULL DEFAULT 0 CHECK (commit_reveal IN (0, 1)),
    reveal_period_epochs INTEGER NOT NULL DEFAULT 1 CHECK (reveal_period_epochs > 0),
    immunity_blocks INTEGER NOT NULL DEFAULT 4096 CHECK (immunity_blocks >= 0),
    min_weights INTEGER NOT NULL DEFAULT 1 CHECK (min_weights >= 0),
    max_weight INTEGER NOT NULL DEFAULT 65535 CHECK (max_weight BETWEEN 1 AND 65535),
    owner_hotkey TEXT
);
CREATE TABLE IF NOT EXISTS neuron (
    uid INTEGER PRIMARY KEY,
    hotkey TEXT NOT NULL UNIQUE,
    coldkey TEXT NOT NULL,
    registered_at_block INTEGER NOT NULL,
    stake_rao INTEGER NOT NULL CHECK (stake_rao >= 0),
    validator_permit INTEGER NOT NULL CHECK (validator_permit IN (0, 1))
);
CREATE TABLE IF NOT EXISTS past_neuron (
    hotkey TEXT NOT NULL,
    coldkey TEXT NOT NULL,
    uid INTEGER NOT NULL,
    registered_at_block INTEGER NOT NULL,
    stake_rao INTEGER NOT NULL,
    validator_permit INTEGER NOT NULL,
    from_block INTEGER NOT NULL,
    until_block INTEGER NOT NULL CHECK (until_block > from_block)
);
CREATE INDEX IF NOT EXISTS past_neuron_by_hotkey ON past_neuron (hotkey, registered_at_block);
CREATE TABLE IF NOT EXISTS weight_row (
    hotkey TEXT PRIMARY KEY,
    updated_at_block INTEGER NOT NULL,
    set_at_block INTEGER,
    weights TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS weight_commit (
    id INTEGER PRIMARY KEY,
    hotkey TEXT NOT NULL,
    committed_at_block INTEGER NOT NULL,
    reveal_block INTEGER NOT NULL,
    version_key INTEGER NOT NULL,
    weights TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS endpoint (
    hotkey TEXT PRIMARY KEY,
    url TEXT NOT NULL
);
"""
_COLUMNS = "hotkey, coldkey, uid, registered_at_block, stake_rao, validator_permit"
# When a neuron took on the stake and permit that it has now.
_SINCE = """
COALESCE((SELECT MAX(until_block) FROM past_neuron AS past WHERE past.hotkey = neuron.hotkey
          AND past.registered_at_block = neuron.registered_at_block), registered_at_block)
"""


class LocalFile:
    """The file at ``path``, with all tables in place; its folder must exist."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with self.connection() as connection:
            connection.executescript(_SCHEMA)

    @contextmanager
    def connection(self) -> Iterator[sqlite3.Connection]:
        """Open the file for reading, or for changes of one statement.

        Raises:
            ChainError: it is no chain's file, or cannot be read or written.
        """
        try:
            with closing(
                sqlite3.connect(self._path, timeout=BUSY_SECONDS, isolation_level=None)
            ) as connection:
                yield connection
        except sqlite3.Error as error:
            raise ChainError(f"the chain file {self._path} cannot be used: {error}") from error

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Open the file for changes that are all made or, if anything is raised, none of them.

        Raises:
            ChainError: it is no chain's file, or cannot be read or written.
        """
        with self.connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")


def neurons_now(connection: sqlite3.Connection) -> dict[str, Neuron]:
    """Return all neurons by hotkey, in the order of their UIDs."""
    return _neurons(connection.execute(f"SELECT {_COLUMNS} FROM neuron ORDER BY uid"))


def neurons_at(connection: sqlite3.Connection, block: int) -> dict[str, Neuron]:
    """Return all neurons by hotkey as they were at the end of a past block."""
    query = f"""
        SELECT {_COLUMNS} FROM neuron WHERE {_SINCE} <= :block
        UNION ALL
        SELECT {_COLUMNS} FROM past_neuron WHERE from_block <= :block AND :block < until_block
        ORDER BY uid
    """
    return _neurons(connection.execute(query, {"block": block}))


def put_neuron(connection: sqlite3.Connection, neuron: Neuron, block: int) -> None:
    """Write a neuron as it is from ``block`` on, keeping what it was before."""
    _keep_past(connection, neuron.hotkey, block)
    connection.execute(
        f"INSERT OR REPLACE INTO neuron ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)",
        (
            neuron.hotkey,
            neuron.coldkey,
            neuron.uid,
            neuron.registered_at_block,
            neuron.stake_rao,
            int(neuron.validator_permit),
        ),
    )


def drop_neuron(connection: sqlite3.Connection, hotkey: str, block: int) -> bool:
    """Free the UID of a hotkey and forget its weights; say whether it had one."""
    _keep_past(connection, hotkey, block)
    connection.execute("DELETE FROM weight_row WHERE hotkey = ?", (hotkey,))
    connection.execute("DELETE FROM weight_commit WHERE hotkey = ?", (hotkey,))
    return bool(connection.execute("DELETE FROM neuron WHERE hotkey = ?", (hotkey,)).rowcount)


def _keep_past(connection: sqlite3.Connection, hotkey: str, block: int) -> None:
    # What began and ended within one block is at no block's end.
    connection.execute(
        f"""
        INSERT INTO past_neuron ({_COLUMNS}, from_block, until_block)
        SELECT {_COLUMNS}, {_SINCE}, :block FROM neuron
        WHERE hotkey = :hotkey AND {_SINCE} < :block
        """,
        {"hotkey": hotkey, "block": block},
    )


def _neurons(rows: sqlite3.Cursor) -> dict[str, Neuron]:
    neurons = [Neuron(*row[:5], validator_permit=bool(row[5])) for row in rows]
    return {neuron.hotkey: neuron for neuron in neurons}
