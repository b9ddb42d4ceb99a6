"""Second looks at what was delivered, and the transfers that give money back for what failed."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"

KINDS = "kind IN ('top_up', 'hold', 'capture', 'void', 'refund')"
IDS = "order_id IS NULL OR kind = 'refund' OR id = kind || ':' || order_id"
REFUNDS = (
    "kind <> 'refund' OR (debit_id = 'revenue'"
    " AND substr(id, 1, length(order_id) + 8) = 'refund:' || order_id || ':')"
)
COLUMNS = "id, kind, debit_id, credit_id, amount_nano, order_id, hold_id, held_nano, created_at_ms"


def upgrade() -> None:
    """Reviews so far are of results that were not delivered; transfers learn refunds."""
    with op.batch_alter_table("reviews") as batch:
        batch.add_column(
            sa.Column("delivered", sa.Boolean(), nullable=False, server_default=sa.false())
        )
        batch.add_column(sa.Column("failed_samples", sa.BigInteger(), nullable=True))
        batch.add_column(sa.Column("failed_tokens", sa.BigInteger(), nullable=True))
    with op.batch_alter_table("reviews") as batch:
        batch.alter_column("delivered", existing_type=sa.Boolean(), server_default=None)
        batch.create_check_constraint(
            op.f("ck_reviews_failed"), "(failed_samples IS NULL) = (failed_tokens IS NULL)"
        )
        batch.create_check_constraint(
            op.f("ck_reviews_delivered"), "delivered OR failed_samples IS NULL"
        )
    op.create_index(
        "ix_reviews_delivered",
        "reviews",
        ["result_lease_id"],
        unique=True,
        sqlite_where=sa.text("delivered"),
        postgresql_where=sa.text("delivered"),
    )
    if op.get_bind().dialect.name == "sqlite":
        _make_anew()
        return
    for name, condition in (("kind", KINDS), ("id", IDS)):
        op.drop_constraint(op.f(f"ck_transfers_{name}"), "transfers", type_="check")
        op.create_check_constraint(op.f(f"ck_transfers_{name}"), "transfers", condition)
    op.create_check_constraint(op.f("ck_transfers_refund"), "transfers", REFUNDS)


def _make_anew() -> None:
    """SQLite cannot change a constraint: the table is copied. Its triggers go with the old one."""
    _create("transfers_anew")
    op.execute(f"INSERT INTO transfers_anew ({COLUMNS}) SELECT {COLUMNS} FROM transfers")
    op.drop_table("transfers")
    op.rename_table("transfers_anew", "transfers")
    for column in ("debit_id", "credit_id", "order_id"):
        op.create_index(op.f(f"ix_transfers_{column}"), "transfers", [column], unique=False)
    for act in ("UPDATE", "DELETE"):
        op.execute(
            f"CREATE TRIGGER transfers_no_{act.lower()} BEFORE {act} ON transfers "
            "BEGIN SELECT RAISE(ABORT, 'transfers are immutable'); END"
        )


def _create(name: str) -> None:
    op.create_table(
        name,
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("debit_id", sa.String(), nullable=False),
        sa.Column("credit_id", sa.String(), nullable=False),
        sa.Column("amount_nano", sa.BigInteger(), nullable=False),
        sa.Column("order_id", sa.String(), nullable=True),
        sa.Column("hold_id", sa.String(), nullable=True),
        sa.Column("held_nano", sa.BigInteger(), nullable=True),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.CheckConstraint(KINDS, name=op.f("ck_transfers_kind")),
        sa.CheckConstraint("debit_id <> credit_id", name=op.f("ck_transfers_sides")),
        sa.CheckConstraint(
            "(kind = 'void' AND amount_nano = 0) OR (kind <> 'void' AND amount_nano > 0)",
            name=op.f("ck_transfers_amount"),
        ),
        sa.CheckConstraint("amount_nano <= held_nano", name=op.f("ck_transfers_held")),
        sa.CheckConstraint(
            "(kind IN ('capture', 'void')) = (hold_id IS NOT NULL)", name=op.f("ck_transfers_hold")
        ),
        sa.CheckConstraint(
            "(hold_id IS NULL) = (held_nano IS NULL)", name=op.f("ck_transfers_held_nano")
        ),
        sa.CheckConstraint(
            "(kind = 'top_up') = (order_id IS NULL)", name=op.f("ck_transfers_order")
        ),
        sa.CheckConstraint(IDS, name=op.f("ck_transfers_id")),
        sa.CheckConstraint(
            "hold_id IS NULL OR hold_id = 'hold:' || order_id", name=op.f("ck_transfers_hold_id")
        ),
        sa.CheckConstraint(REFUNDS, name=op.f("ck_transfers_refund")),
        sa.ForeignKeyConstraint(
            ["debit_id"], ["ledger_accounts.id"], name=op.f("fk_transfers_debit_id_ledger_accounts")
        ),
        sa.ForeignKeyConstraint(
            ["credit_id"],
            ["ledger_accounts.id"],
            name=op.f("fk_transfers_credit_id_ledger_accounts"),
        ),
        sa.ForeignKeyConstraint(
            ["order_id"], ["orders.id"], name=op.f("fk_transfers_order_id_orders")
        ),
        sa.UniqueConstraint("hold_id", name=op.f("uq_transfers_hold_id")),
        sa.UniqueConstraint(
            "id",
            "amount_nano",
            "debit_id",
            "credit_id",
            name=op.f("uq_transfers_id_amount_nano_debit_id_credit_id"),
        ),
        sa.ForeignKeyConstraint(
            ["hold_id", "held_nano", "debit_id", "credit_id"],
            # Of the table itself, which SQLite renames along: dropping the old one harms none.
            [f"{name}.{column}" for column in ("id", "amount_nano", "debit_id", "credit_id")],
            name=op.f("fk_transfers_hold_id_held_nano_debit_id_credit_id_transfers"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_transfers")),
    )
