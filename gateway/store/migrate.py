"""Bringing a database to the newest schema when the gateway starts."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, text

SCRIPTS = Path(__file__).parent / "migrations"
# Any constant will do; it keeps two replicas that start at once from migrating together.
LOCK = 7_205_759


def migrate(connection: Connection) -> None:
    """Apply all migrations that ``connection``'s database lacks, inside its transaction."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": LOCK})
    config = Config()
    config.set_main_option("script_location", str(SCRIPTS))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
