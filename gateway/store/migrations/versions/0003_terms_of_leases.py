"""The hard end of a lease, the owners of nodes, and since when a unit is offered."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add the columns. Nodes whose owner was never noted count as owners of their own."""
    for table, column, kind, value in (
        ("nodes", "coldkey", sa.String(), "hotkey"),
        ("leases", "coldkey", sa.String(), "hotkey"),
        ("leases", "ends_at_ms", sa.BigInteger(), "expires_at_ms"),
        ("units", "offered_at_ms", sa.BigInteger(), "created_at_ms"),
    ):
        op.add_column(table, sa.Column(column, kind, nullable=True))
        op.execute(f"UPDATE {table} SET {column} = {value}")
        with op.batch_alter_table(table) as batch:
            batch.alter_column(column, existing_type=kind, nullable=False)
    op.create_index(
        op.f("ix_leases_hotkey_ended_at_ms"), "leases", ["hotkey", "ended_at_ms"], unique=False
    )
