"""Miners' records with each model commit, in place of one for all."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Create records. Voids were for good before and of any model: they are forgotten."""
    op.create_table(
        "records",
        sa.Column("miner", sa.String(), nullable=False),
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("revision", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("entries_json", sa.Text(), nullable=False),
        sa.Column("verified_at_ms", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("miner", "model", "revision", name=op.f("pk_records")),
    )
    op.create_index(op.f("ix_records_model_revision"), "records", ["model", "revision"])
    with op.batch_alter_table("nodes") as batch:
        batch.drop_column("outcomes")
