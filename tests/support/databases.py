"""Databases to test with: SQLite with its tables already there, PostgreSQL with none.

Not every test applies all migrations.
"""

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

import psycopg
from sqlalchemy import create_engine

from gateway.store.migrate import migrate


@cache
def _migrated() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="reliquary-database-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    engine = create_engine(f"sqlite:///{folder}/gateway.sqlite")
    with engine.begin() as connection:
        migrate(connection)
    engine.dispose()
    return folder / "gateway.sqlite"


def fresh_sqlite(path: Path) -> str:
    """Make an empty database of the newest schema at ``path`` and return its URL."""
    shutil.copyfile(_migrated(), path)
    return f"sqlite:///{path}"


def emptied(uri: str) -> str:
    """Remove all tables of a PostgreSQL database and return its URI."""
    with psycopg.connect(uri, autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
    return uri
