"""The ledger, and the price that each order was quoted."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

IMMUTABLE = "transfers are immutable"


def upgrade() -> None:
    """Create the ledger. Orders that were placed before it have no price and cost nothing."""
    op.add_column("orders", sa.Column("price_json", sa.Text(), nullable=True))
    op.create_table(
        "ledger_accounts",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("account_id", sa.String(), nullable=True),
        sa.Column("debits_pending", sa.BigInteger(), nullable=False),
        sa.Column("debits_posted", sa.BigInteger(), nullable=False),
        sa.Column("credits_pending", sa.BigInteger(), nullable=False),
        sa.Column("credits_posted", sa.BigInteger(), nullable=False),
        sa.CheckConstraint(
            "kind IN ('cash', 'revenue', 'customer')", name=op.f("ck_ledger_accounts_kind")
        ),
        sa.CheckConstraint(
            "debits_pending >= 0 AND debits_posted >= 0"
            " AND credits_pending >= 0 AND credits_posted >= 0",
            name=op.f("ck_ledger_accounts_sums"),
        ),
        sa.CheckConstraint(
            "kind <> 'customer' OR debits_pending + debits_posted <= credits_posted",
            name=op.f("ck_ledger_accounts_overdraft"),
        ),
        sa.CheckConstraint(
            "(kind = 'customer') = (account_id IS NOT NULL)", name=op.f("ck_ledger_accounts_owner")
        ),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_ledger_accounts_account_id_accounts")
        ),
        sa.UniqueConstraint("account_id", name=op.f("uq_ledger_accounts_account_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_ledger_accounts")),
    )
    for kind in ("cash", "revenue"):
        op.execute(f"INSERT INTO ledger_accounts VALUES ('{kind}', '{kind}', NULL, 0, 0, 0, 0)")
    _create_transfers()
    if op.get_bind().dialect.name == "sqlite":
        _forbid_in_sqlite()
    else:
        _forbid_in_postgresql()


def _create_transfers() -> None:
    op.create_table(
        "transfers",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("debit_id", sa.String(), nullable=False),
        sa.Column("credit_id", sa.String(), nullable=False),
        sa.Column("amount_nano", sa.BigInteger(), nullable=False),
        sa.Column("order_id", sa.String(), nullable=True),
        sa.Column("hold_id", sa.String(), nullable=True),
        sa.Column("held_nano", sa.BigInteger(), nullable=True),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.CheckConstraint(
            "kind IN ('top_up', 'hold', 'capture', 'void')", name=op.f("ck_transfers_kind")
        ),
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
        sa.CheckConstraint(
            "order_id IS NULL OR id = kind || ':' || order_id", name=op.f("ck_transfers_id")
        ),
        sa.CheckConstraint(
            "hold_id IS NULL OR hold_id = 'hold:' || order_id", name=op.f("ck_transfers_hold_id")
        ),
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
            ["transfers.id", "transfers.amount_nano", "transfers.debit_id", "transfers.credit_id"],
            name=op.f("fk_transfers_hold_id_held_nano_debit_id_credit_id_transfers"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_transfers")),
    )
    for column in ("debit_id", "credit_id", "order_id"):
        op.create_index(op.f(f"ix_transfers_{column}"), "transfers", [column], unique=False)


def _forbid_in_sqlite() -> None:
    for act in ("UPDATE", "DELETE"):
        op.execute(
            f"CREATE TRIGGER transfers_no_{act.lower()} BEFORE {act} ON transfers "
            f"BEGIN SELECT RAISE(ABORT, '{IMMUTABLE}'); END"
        )


def _forbid_in_postgresql() -> None:
    op.execute(
        "CREATE FUNCTION refuse_to_change_transfers() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN RAISE EXCEPTION '{IMMUTABLE}'; END $$"
    )
    op.execute(
        "CREATE TRIGGER transfers_no_change BEFORE UPDATE OR DELETE ON transfers "
        "FOR EACH ROW EXECUTE FUNCTION refuse_to_change_transfers()"
    )
