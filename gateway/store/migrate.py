"""Bringing a database to the newest schema when the gateway starts."""

from pathlib import Path

from sqlalchemy import Connection, inspect, text

SCRIPTS = Path(__file__).parent / "migrations"
# Any constant will do; it keeps two replicas that start at once from migrating together.
LOCK = 7_205_759


def migrate(connection: Connection) -> None:
    """Apply all migrations that ``connection``'s database lacks, inside its transaction."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": LOCK})
    if _version(connection) == newest():
        return
    # Only here: it takes some 12 MB, which a gateway that is up to date need not hold.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(SCRIPTS))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def newest() -> str:
    """Return the version of the newest schema, with which the names of migrations begin."""
    return max(path.name for path in (SCRIPTS / "versions").glob("[0-9]*.py")).split("_")[0]


def _version(connection: Connection) -> str | None:
    """Return the version of the database's schema; None of a database that has none."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
