"""The store over both databases: transactions, migrations, constraints."""

import asyncio
import sqlite3

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import CheckConstraint, inspect
from sqlalchemy.exc import DatabaseError, IntegrityError
from sqlmodel import col, select, update

from gateway.store.engine import Store
from gateway.store.migrate import SCRIPTS, newest
from gateway.store.objects import open_objects
from gateway.store.tables import Account, Node, Table, Unit

NOW = 1_762_685_000_000


async def test_migrations_make_the_tables_of_the_metadata(store: Store):
    def differences(connection):
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        return compare_metadata(context, Table.metadata)

    async with store.write() as session:
        connection = await session.connection()
        assert await connection.run_sync(differences) == []


async def test_a_database_is_known_to_be_up_to_date(store: Store):
    config = Config()
    config.set_main_option("script_location", str(SCRIPTS))
    assert newest() == ScriptDirectory.from_config(config).get_current_head()
    async with store.write() as session:
        connection = await session.connection()
        version = await connection.run_sync(
            lambda one: MigrationContext.configure(one).get_current_revision()
        )
    assert version == newest()


async def test_every_check_of_the_metadata_is_in_the_database(store: Store):
    def names(connection):
        inspector = inspect(connection)
        return {
            check["name"]
            for table in Table.metadata.tables
            for check in inspector.get_check_constraints(table)
        }

    expected = {
        str(constraint.name)
        for table in Table.metadata.tables.values()
        for constraint in table.constraints
        if isinstance(constraint, CheckConstraint)
    }
    async with store.read() as session:
        connection = await session.connection()
        found = await connection.run_sync(names)
    assert len(expected) > 20
    assert expected <= found


async def test_opening_twice_changes_nothing(empty_database: str, tmp_path):
    for _ in range(2):
        store = await Store.open(empty_database, open_objects(f"file://{tmp_path}/objects"))
        async with store.write() as session:
            session.add(Account(name=f"a{_}", created_at_ms=NOW))
        await store.close()
    store = await Store.open(empty_database, open_objects(f"file://{tmp_path}/objects"))
    async with store.read() as session:
        assert len((await session.exec(select(Account))).all()) == 2
    await store.close()


async def test_two_openers_at_once_both_succeed(empty_database: str, tmp_path):
    objects = open_objects(f"file://{tmp_path}/objects")
    stores = await asyncio.gather(*(Store.open(empty_database, objects) for _ in range(2)))
    for store in stores:
        await store.close()


async def test_concurrent_increments_lose_nothing(store: Store):
    async with store.write() as session:
        session.add(_node("1"))

    async def increment() -> None:
        async with store.write() as session:
            statement = select(Node).where(col(Node.hotkey) == "1").with_for_update()
            node = (await session.exec(statement)).one()
            await asyncio.sleep(0)
            node.max_samples += 1
            session.add(node)

    await asyncio.gather(*(increment() for _ in range(60)))
    async with store.read() as session:
        node = await session.get(Node, "1")
    assert node is not None and node.max_samples == 61


async def test_a_failed_transaction_is_undone_whole(store: Store):
    with pytest.raises(RuntimeError):
        async with store.write() as session:
            session.add(_node("1"))
            await session.flush()
            raise RuntimeError
    async with store.read() as session:
        assert await session.get(Node, "1") is None


async def test_constraints_judge(store: Store):
    with pytest.raises(IntegrityError):
        async with store.write() as session:
            session.add(Account(name="a", state="odd", created_at_ms=NOW))
    with pytest.raises(IntegrityError):
        async with store.write() as session:
            session.add(
                Unit(
                    order_id="none",
                    root_id="none",
                    first_line=0,
                    end_line=1,
                    samples=1,
                    outcomes=".",
                    verified_bits=b"\0",
                    created_at_ms=NOW,
                )
            )


async def test_times_of_any_size_survive(store: Store):
    async with store.write() as session:
        session.add(_node("1"))
        await session.flush()
        await session.exec(update(Node).values(seen_at_ms=2**62))
    async with store.read() as session:
        node = await session.get(Node, "1")
    assert node is not None and node.seen_at_ms == 2**62


async def test_a_reader_of_sqlite_cannot_write(sqlite_store: Store):
    with pytest.raises(DatabaseError, match="readonly"):
        async with sqlite_store.read() as session:
            session.add(_node("1"))
            await session.flush()


async def test_sqlite_is_durable_and_checks_foreign_keys(sqlite_store: Store):
    async with sqlite_store.write() as session:
        connection = await session.connection()
        found = {
            name: await connection.run_sync(
                lambda sync, name=name: sync.exec_driver_sql(f"PRAGMA {name}").scalar()
            )
            for name in ("journal_mode", "synchronous", "foreign_keys")
        }
    assert found == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1}


async def test_another_process_that_writes_stops_nothing_but_writing(sqlite_store: Store):
    async with sqlite_store.write() as session:
        session.add(_node("1"))
    other = await _other_writer(sqlite_store)

    async def rename() -> None:
        async with sqlite_store.write() as session:
            node = await session.get(Node, "1")
            assert node is not None
            node.coldkey = "renamed"
            session.add(node)

    writing = asyncio.create_task(rename())
    for _ in range(20):
        await asyncio.sleep(0.005)
        async with sqlite_store.glance() as session:
            assert await session.get(Node, "1") is not None
    assert not writing.done()
    other.execute("ROLLBACK")
    other.close()
    await writing
    async with sqlite_store.read() as session:
        node = await session.get(Node, "1")
    assert node is not None and node.coldkey == "renamed"


async def test_whoever_is_cancelled_leaves_the_writer_to_others(sqlite_store: Store):
    async def add(number: int) -> None:
        async with sqlite_store.write() as session:
            session.add(_node(str(number)))

    for number in range(40):
        adding = asyncio.create_task(add(number))
        # From before its first statement to after its commit.
        for _ in range(number % 10):
            await asyncio.sleep(0)
        adding.cancel()
        outcome = (await asyncio.gather(adding, return_exceptions=True))[0]
        async with sqlite_store.write() as session:
            found = await session.get(Node, str(number))
        if outcome is None:
            assert found is not None


async def test_no_number_of_cancellations_leaves_a_thread_at_a_connection(sqlite_store: Store):
    async def add() -> None:
        async with sqlite_store.write() as session:
            session.add(_node("1"))

    other = await _other_writer(sqlite_store)
    waiting = asyncio.create_task(add())
    for _ in range(3):
        await asyncio.sleep(0.02)
        waiting.cancel()
    await asyncio.sleep(0.02)
    # Its thread still waits for the lock, with the one connection that writes.
    assert not waiting.done()
    other.close()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await add()


@pytest.mark.parametrize("url", ["mysql://h/d", "sqlite://", "sqlite:///:memory:"])
async def test_other_databases_are_refused(url: str, tmp_path):
    with pytest.raises(ValueError, match="sqlite:///PATH"):
        await Store.open(url, open_objects(f"file://{tmp_path}"))


async def test_news_wakes_the_waiter(sqlite_store: Store):
    waiter = asyncio.create_task(sqlite_store.wait_for_news(600))
    await asyncio.sleep(0)
    sqlite_store.announce_news()
    await waiter


async def _other_writer(store: Store) -> sqlite3.Connection:
    """Hold the lock to write from another connection, as another process would."""
    async with store.glance() as session:
        path = (await session.connection()).engine.url.database
    assert path is not None
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    return other


def _node(hotkey: str) -> Node:
    return Node(
        hotkey=hotkey,
        coldkey="owner",
        role="miner",
        stack_json="{}",
        architectures_json="[]",
        max_samples=1,
        registered_at_ms=NOW,
        seen_at_ms=NOW,
    )
