"""What all tables share: one metadata with named constraints, and short column makers.

Times are Unix milliseconds in 64 bits (``*_ms``), so that no driver meddles with time zones. States
are text under a named CHECK, so that a new state is a plain migration on both databases.
"""

import re
from enum import StrEnum
from typing import Any

from sqlalchemy import BigInteger, CheckConstraint, Double, LargeBinary, MetaData, String, Text
from sqlalchemy.orm import declared_attr
from sqlmodel import Field, SQLModel
from uuid_utils.compat import uuid7

NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}


class Table(SQLModel):
    """Base of all tables. Rows are built from data that was validated before."""

    metadata = MetaData(naming_convention=NAMING)

    @declared_attr.directive
    def __tablename__(cls) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The class's name in lower case and plural: ``ApiKey`` lies in ``api_keys``."""
        return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", cls.__name__).lower() + "s"


def new_id() -> str:
    """Return a fresh identifier, a UUIDv7: it sorts by its time of making."""
    return str(uuid7())


def big(default: Any = ..., **options: Any) -> Any:
    """Return a 64-bit integer column (a plain ``int`` has 32 bits on PostgreSQL)."""
    return Field(default=default, sa_type=BigInteger, **options)


def real(default: Any = ..., **options: Any) -> Any:
    """Return a column of double precision."""
    return Field(default=default, sa_type=Double, **options)


def word(default: Any = ..., **options: Any) -> Any:
    """Return a column for a short name, id, hash or state."""
    return Field(default=default, sa_type=String, **options)


def text(default: Any = ..., **options: Any) -> Any:
    """Return a column for longer text, such as JSON."""
    return Field(default=default, sa_type=Text, **options)


def blob(default: Any = ..., **options: Any) -> Any:
    """Return a column of bytes."""
    return Field(default=default, sa_type=LargeBinary, **options)


def one_of(column: str, values: type[StrEnum]) -> CheckConstraint:
    """Return the named CHECK that holds ``column`` to the members of ``values`` (or NULL)."""
    members = ", ".join(f"'{value}'" for value in values)
    return CheckConstraint(f"{column} IN ({members})", name=column)
