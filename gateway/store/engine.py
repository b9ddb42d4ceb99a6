"""The store: one SQL database and one object store, opened together.

The same statements serve SQLite and PostgreSQL. On SQLite all writes go through one connection that
begins with ``BEGIN IMMEDIATE`` (a deferred begin loses updates or fails with "database is locked"),
and readers can not write; on PostgreSQL both sides share a pool, and rows are locked.

On SQLite, what is written and what takes a moment to read runs in the event loop (``direct.py``),
other reads in threads.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

from sqlalchemy import event
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlmodel.ext.asyncio.session import AsyncSession

from gateway.store.direct import BEGIN_TO_READ, BEGIN_TO_WRITE, BUSY_TIMEOUT_MS, DRIVER, PATIENT
from gateway.store.migrate import migrate
from gateway.store.objects import Objects

WRITER_WAIT_SECONDS = 60
READERS = 8
POOL = 16


class Store:
    """All that the gateway keeps. Open it with ``Store.open`` and end it with ``close``."""

    def __init__(
        self, writer: AsyncEngine, glancer: AsyncEngine, reader: AsyncEngine, objects: Objects
    ) -> None:
        self.objects = objects
        self._writer = writer
        self._glancer = glancer
        self._reader = reader
        self._news = asyncio.Event()
        self._heard = 0

    @classmethod
    async def open(cls, url: str, objects: Objects) -> Self:
        """Open the database at ``url`` and bring its tables up to date.

        Args:
            url: ``sqlite:///PATH`` or ``postgresql://USER:PASSWORD@HOST/NAME``.
            objects: where objects are kept.

        Raises:
            ValueError: the URL names another kind of database, or SQLite in memory.
        """
        kind = make_url(url).get_backend_name()
        if kind == "sqlite":
            engines = _sqlite(url)
        elif kind == "postgresql":
            shared = _postgresql(url)
            engines = shared, shared, shared
        else:
            raise ValueError(f"the database is sqlite:///PATH or postgresql://..., not {kind}")
        store = cls(*engines, objects)
        try:
            async with store._writer.begin() as connection:
                await connection.run_sync(migrate)
        except BaseException:
            await store.close()
            raise
        return store

    async def close(self) -> None:
        """Close all connections and end their threads."""
        for engine in (self._reader, self._glancer, self._writer):
            await engine.dispose()

    @asynccontextmanager
    async def read(self) -> AsyncIterator[AsyncSession]:
        """Give a session to read with; nothing of it is written."""
        async with AsyncSession(self._reader, expire_on_commit=False) as session:
            yield session

    @asynccontextmanager
    async def glance(self) -> AsyncIterator[AsyncSession]:
        """Give a session for reads that take a moment: nothing else goes on meanwhile."""
        async with AsyncSession(self._glancer, expire_on_commit=False) as session:
            yield session

    @asynccontextmanager
    async def write(self) -> AsyncIterator[AsyncSession]:
        """Give a session whose work is one transaction: committed at its end, or undone whole."""
        async with AsyncSession(self._writer, expire_on_commit=False) as session, session.begin():
            yield session

    def announce_news(self) -> None:
        """Wake ``wait_for_news`` of this process: there may be work now, of nodes or its own."""
        self._heard += 1
        self._news.set()
        self._news = asyncio.Event()

    @property
    def news(self) -> int:
        """How many pieces of news there were so far in this process."""
        return self._heard

    async def wait_for_news(self, seconds: float, since: int | None = None) -> None:
        """Return once there is news, or after ``seconds`` of none.

        Args:
            since: what ``news`` was when the caller last looked; None is now.
        """
        if since not in (None, self._heard):
            return
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            return


def _sqlite(url: str) -> tuple[AsyncEngine, AsyncEngine, AsyncEngine]:
    location = make_url(url).set(drivername=DRIVER)
    if not location.database or location.database == ":memory:":
        raise ValueError("SQLite needs a file: sqlite:///PATH")
    Path(location.database).parent.mkdir(parents=True, exist_ok=True)
    writer = create_async_engine(
        location,
        pool_size=1,
        max_overflow=0,
        pool_timeout=WRITER_WAIT_SECONDS,
        hide_parameters=True,
    )
    glancer, reader = (
        create_async_engine(
            location,
            pool_size=READERS,
            max_overflow=0,
            hide_parameters=True,
            connect_args={PATIENT: patient},
        )
        for patient in (False, True)
    )
    _prepare_sqlite(writer, BEGIN_TO_WRITE, ("journal_mode=WAL", "synchronous=FULL"))
    for engine in (glancer, reader):
        _prepare_sqlite(engine, BEGIN_TO_READ, ("query_only=ON",))
    return writer, glancer, reader


def _prepare_sqlite(engine: AsyncEngine, begin: str, pragmas: tuple[str, ...]) -> None:
    @event.listens_for(engine.sync_engine, "connect")
    def set_pragmas(connection: Any, _record: Any) -> None:
        # None stops the driver from beginning transactions on its own.
        connection.isolation_level = None
        cursor = connection.cursor()
        for pragma in ("foreign_keys=ON", f"busy_timeout={BUSY_TIMEOUT_MS}", *pragmas):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    @event.listens_for(engine.sync_engine, "begin")
    def begin_transaction(connection: Any) -> None:
        connection.exec_driver_sql(begin)


def _postgresql(url: str) -> AsyncEngine:
    location = make_url(url).set(drivername="postgresql+psycopg")
    return create_async_engine(
        location,
        pool_size=POOL,
        max_overflow=POOL,
        pool_pre_ping=True,
        # What was written by customers stays out of errors, and so out of logs.
        hide_parameters=True,
    )
