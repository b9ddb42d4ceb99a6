"""Second opinions on judged units, and validators that are not believed."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Create reviews. What was judged before them has no letters, and gets no review."""
    op.create_table(
        "reviews",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("order_id", sa.String(), nullable=False),
        sa.Column("unit_id", sa.String(), nullable=False),
        sa.Column("result_lease_id", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("ending", sa.String(), nullable=True),
        sa.Column("block", sa.BigInteger(), nullable=True),
        sa.Column("block_hash", sa.String(), nullable=True),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("offered_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("closed_at_ms", sa.BigInteger(), nullable=True),
        sa.CheckConstraint(
            "state IN ('awaited', 'open', 'auditing', 'closed')", name=op.f("ck_reviews_state")
        ),
        sa.CheckConstraint(
            "ending IN ('passed_over', 'alone', 'agreed', 'overruled', 'unresolved', 'late', "
            "'withdrawn')",
            name=op.f("ck_reviews_ending"),
        ),
        sa.ForeignKeyConstraint(
            ["order_id"], ["orders.id"], name=op.f("fk_reviews_order_id_orders")
        ),
        sa.ForeignKeyConstraint(["unit_id"], ["units.id"], name=op.f("fk_reviews_unit_id_units")),
        sa.ForeignKeyConstraint(
            ["result_lease_id"], ["leases.id"], name=op.f("fk_reviews_result_lease_id_leases")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_reviews")),
    )
    op.create_index(op.f("ix_reviews_order_id"), "reviews", ["order_id"], unique=False)
    op.create_index(op.f("ix_reviews_unit_id"), "reviews", ["unit_id"], unique=False)
    op.create_index(
        op.f("ix_reviews_state_offered_at_ms"), "reviews", ["state", "offered_at_ms"], unique=False
    )
    op.add_column("leases", sa.Column("review_id", sa.String(), nullable=True))
    op.add_column("nodes", sa.Column("distrusted_until_ms", sa.BigInteger(), nullable=True))
    op.add_column("verdicts", sa.Column("withdrawn_at_ms", sa.BigInteger(), nullable=True))
    op.add_column("verdicts", sa.Column("outcomes", sa.Text(), nullable=True))
    op.execute("UPDATE verdicts SET outcomes = ''")
    with op.batch_alter_table("verdicts") as batch:
        batch.alter_column("outcomes", existing_type=sa.Text(), nullable=False)
