"""The evidence against miners, and those that it has convicted."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Create trails. What was judged before them counts for nobody and against nobody."""
    op.create_table(
        "trails",
        sa.Column("miner", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("tokens", sa.BigInteger(), nullable=False),
        sa.Column("log_sums_json", sa.Text(), nullable=False),
        sa.Column("peak", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("miner", "owner", name=op.f("pk_trails")),
    )
    op.add_column("nodes", sa.Column("convicted_at_ms", sa.BigInteger(), nullable=True))
