"""SQLite without a thread between a statement and its answer.

The statements of a request for work take SQLite some microseconds each. Handing one to a thread and
taking its rows back costs many times as much, and while the event loop is busy every such hand-over
waits for the interpreter's lock. So statements run in the event loop itself. What may wait, for the
lock of another process or for the disk, goes to a thread: ``BEGIN IMMEDIATE`` where the lock is not
free, and every commit. On a ``PATIENT`` connection whole statements do, each with all its rows.
"""

import asyncio
import sqlite3
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Self, cast

from sqlalchemy.dialects import registry
from sqlalchemy.dialects.sqlite.aiosqlite import (
    AsyncAdapt_aiosqlite_dbapi,
    SQLiteDialect_aiosqlite,
)
from sqlalchemy.engine import AdaptedConnection
from sqlalchemy.util.concurrency import await_

DRIVER = "sqlite+direct"
# A connection argument.
PATIENT = "patient"
BEGIN_TO_READ = "BEGIN"
BEGIN_TO_WRITE = "BEGIN IMMEDIATE"
BUSY_TIMEOUT_MS = 30_000


class _Driver(sqlite3.Connection):
    """The connection proper, with a thread of its own for what may wait."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._thread: ThreadPoolExecutor | None = None

    def begin_to_write(self) -> None:
        """Take the write lock; where it is not free, wait for it in the thread.

        Raises:
            sqlite3.OperationalError: it was not free for as long as the busy time-out.
        """
        try:
            self._begin_within(0)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_BUSY_SNAPSHOT):
                raise
            self.in_thread(lambda: self._begin_within(BUSY_TIMEOUT_MS))

    def in_thread(self, call: Callable[[], None]) -> None:
        """Run a call in the thread; the task that waits is not cancelled before it has ended."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "sqlite")
        await_(_ended(self._thread, call))

    def close(self) -> None:
        """Close the connection and end its thread."""
        super().close()
        if self._thread is not None:
            self._thread.shutdown(wait=False)

    def _begin_within(self, milliseconds: int) -> None:
        self.execute(f"PRAGMA busy_timeout={milliseconds}").close()
        try:
            self.execute(BEGIN_TO_WRITE).close()
        finally:
            self.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}").close()


async def _ended(thread: ThreadPoolExecutor, call: Callable[[], None]) -> None:
    future = asyncio.get_running_loop().run_in_executor(thread, call)
    try:
        await asyncio.shield(future)
    except asyncio.CancelledError:
        # What it does to the connection is over before anybody else has the connection, however
        # often the task is cancelled.
        while not future.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait((future,))
        raise


class _Cursor(sqlite3.Cursor):
    """A cursor as SQLAlchemy's asynchronous engine takes it."""

    server_side = False

    def execute(self, sql: str, parameters: Any = ()) -> Self:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Run a statement here and now, but for the lock to write."""
        if sql == BEGIN_TO_WRITE:
            cast(_Driver, self.connection).begin_to_write()
            return self
        return super().execute(sql, parameters)

    async def _async_soft_close(self) -> None:
        """Keep the rows: nothing of them is elsewhere."""


class _PatientCursor(_Cursor):
    """A cursor whose statements run in the connection's thread."""

    _rows: deque[Any]

    def execute(self, sql: str, parameters: Any = ()) -> Self:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Run a statement, and take all its rows over."""
        if sql == BEGIN_TO_READ:
            return super().execute(sql, parameters)

        def run() -> None:
            sqlite3.Cursor.execute(self, sql, parameters)
            self._rows = deque(sqlite3.Cursor.fetchall(self))

        cast(_Driver, self.connection).in_thread(run)
        return self

    def fetchone(self) -> Any:
        """Return the next row; None where there is none."""
        return self._rows.popleft() if self._rows else None

    def fetchmany(self, size: int | None = 1) -> list[Any]:
        """Return the next rows."""
        return [self._rows.popleft() for _ in range(min(size or 1, len(self._rows)))]

    def fetchall(self) -> list[Any]:
        """Return all further rows."""
        rows = list(self._rows)
        self._rows.clear()
        return rows

    def __next__(self) -> Any:
        """Return the next row."""
        if not self._rows:
            raise StopIteration
        return self._rows.popleft()


class _Connection(AdaptedConnection):
    """The connection as SQLAlchemy's asynchronous engine takes it."""

    __slots__ = ("_cursor",)

    _connection: Any

    def __init__(self, connection: _Driver, cursor: type[_Cursor]) -> None:
        self._connection = connection
        self._cursor = cursor

    def cursor(self, server_side: bool = False) -> sqlite3.Cursor:
        """Return a cursor; all are of this side."""
        return self._connection.cursor(self._cursor)

    @property
    def isolation_level(self) -> str | None:
        """When the driver begins transactions on its own."""
        return self._connection.isolation_level

    @isolation_level.setter
    def isolation_level(self, value: str | None) -> None:
        self._connection.isolation_level = value

    def create_function(self, *args: Any, **options: Any) -> None:
        """Make a function known to SQL."""
        self._connection.create_function(*args, **options)

    def commit(self) -> None:
        """Commit in the thread: it waits for the disk."""
        if self._connection.in_transaction:
            self._connection.in_thread(self._connection.commit)

    def rollback(self) -> None:
        """Undo the transaction, which waits for nothing."""
        self._connection.rollback()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def terminate(self) -> None:
        """Close it where nobody can wait."""
        self._connection.close()


class _Module(AsyncAdapt_aiosqlite_dbapi):
    def connect(self, *arg: Any, **kw: Any) -> Any:
        """Open a database file."""
        cursor = _PatientCursor if kw.pop(PATIENT, False) else _Cursor
        return _Connection(sqlite3.connect(*arg, factory=_Driver, **kw), cursor)


class DirectDialect(SQLiteDialect_aiosqlite):
    """SQLAlchemy's SQLite over the connections of this file."""

    driver = "direct"
    supports_statement_cache = True
    supports_server_side_cursors = False

    @classmethod
    def import_dbapi(cls) -> AsyncAdapt_aiosqlite_dbapi:
        """Return the driver."""
        return _Module(__import__("aiosqlite"), sqlite3)


registry.register("sqlite.direct", __name__, DirectDialect.__name__)
