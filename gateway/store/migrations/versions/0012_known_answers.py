"""Units whose right verdicts are known, and how they were judged."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """Create known answers; units so far are none."""
    op.add_column("units", sa.Column("known", sa.Text(), nullable=True))
    op.add_column("units", sa.Column("source_lease_id", sa.String(), nullable=True))
    op.create_index(op.f("ix_units_source_lease_id"), "units", ["source_lease_id"])
    op.create_table(
        "known_answers",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("void", sa.BigInteger(), nullable=False),
        sa.Column("void_passed", sa.BigInteger(), nullable=False),
        sa.Column("verified", sa.BigInteger(), nullable=False),
        sa.Column("verified_failed", sa.BigInteger(), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["id"], ["leases.id"], name=op.f("fk_known_answers_id_leases")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_known_answers")),
    )
    op.create_index(op.f("ix_known_answers_owner"), "known_answers", ["owner"])
