"""The public records of epochs."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Create the list of records; the first one that is written begins the chain."""
    op.create_table(
        "epochs",
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("block", sa.BigInteger(), nullable=False),
        sa.Column("object_key", sa.String(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_epochs")),
        sa.UniqueConstraint("digest", name=op.f("uq_epochs_digest")),
        sa.UniqueConstraint("object_key", name=op.f("uq_epochs_object_key")),
    )
