"""How many samples of each owner's miners were verified, by which their leases grow."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Count from here on."""
    with op.batch_alter_table("records") as batch:
        batch.add_column(
            sa.Column("verified", sa.BigInteger(), nullable=False, server_default=sa.text("0"))
        )
    with op.batch_alter_table("records") as batch:
        batch.alter_column("verified", server_default=None)
    op.create_index(op.f("ix_records_owner"), "records", ["owner"])
