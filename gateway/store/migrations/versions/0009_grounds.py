"""What the evidence against a miner rests on, and the stacks that live leases were taken with."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Trails so far are by measured profiles; nodes of this version announce themselves anew."""
    ground = sa.Column("ground", sa.String(), server_default="measured", nullable=False)
    with op.batch_alter_table("trails") as batch:
        batch.add_column(ground)
        batch.drop_constraint(op.f("pk_trails"), type_="primary")
        batch.create_primary_key(op.f("pk_trails"), ["miner", "owner", "ground"])
    with op.batch_alter_table("trails") as batch:
        batch.alter_column("ground", existing_type=sa.String(), server_default=None)
    op.execute("UPDATE nodes SET seen_at_ms = 0")
    op.execute(
        "UPDATE leases SET stack_json = (SELECT nodes.stack_json FROM nodes "
        "WHERE nodes.hotkey = leases.hotkey) WHERE state = 'live'"
    )
