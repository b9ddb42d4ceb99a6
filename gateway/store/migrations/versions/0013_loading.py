"""What a node is loading, so that others load something else."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    """Add the commit that a node loads."""
    op.add_column("nodes", sa.Column("loading_model", sa.String(), nullable=True))
    op.add_column("nodes", sa.Column("loading_revision", sa.String(), nullable=True))
