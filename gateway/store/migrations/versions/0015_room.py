"""How much room kept quotes take, and the transfers that take a mistaken payment back."""

import re

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"

KINDS_BEFORE = "kind IN ('top_up', 'hold', 'capture', 'void', 'refund')"
KINDS = "kind IN ('top_up', 'hold', 'capture', 'void', 'refund', 'withdrawal')"
ORDERS_BEFORE = "(kind = 'top_up') = (order_id IS NULL)"
ORDERS = "(kind IN ('top_up', 'withdrawal')) = (order_id IS NULL)"
WITHDRAWALS = "kind <> 'withdrawal' OR credit_id = 'cash'"
STAGES = "stage IN ('storing', 'open', 'dropped', 'gone')"


def upgrade() -> None:
    """Quotes that are kept by now count as small; transfers learn withdrawals."""
    with op.batch_alter_table("dataset_quotes") as batch:
        batch.add_column(sa.Column("bytes", sa.BigInteger(), nullable=False, server_default="0"))
        batch.add_column(sa.Column("stage", sa.String(), nullable=False, server_default="open"))
    with op.batch_alter_table("dataset_quotes") as batch:
        batch.alter_column("bytes", existing_type=sa.BigInteger(), server_default=None)
        batch.alter_column("stage", existing_type=sa.String(), server_default=None)
        batch.create_check_constraint(op.f("ck_dataset_quotes_stage"), STAGES)
    if op.get_bind().dialect.name == "sqlite":
        _make_anew()
        return
    for name, condition in (("kind", KINDS), ("order", ORDERS)):
        op.drop_constraint(op.f(f"ck_transfers_{name}"), "transfers", type_="check")
        op.create_check_constraint(op.f(f"ck_transfers_{name}"), "transfers", condition)
    op.create_check_constraint(op.f("ck_transfers_withdrawal"), "transfers", WITHDRAWALS)


def _make_anew() -> None:
    """SQLite cannot change a constraint: the table is copied. What belonged to it is made again."""
    bind = op.get_bind()
    statement = "SELECT type, sql FROM sqlite_master WHERE tbl_name = 'transfers' AND sql NOTNULL"
    made = [(kind, str(sql)) for kind, sql in bind.execute(sa.text(statement)).all()]
    (table,) = [sql for kind, sql in made if kind == "table"]
    table = _replaced(table, KINDS_BEFORE, KINDS)
    table = _replaced(
        table,
        f"CHECK ({ORDERS_BEFORE})",
        f"CHECK ({ORDERS}), CONSTRAINT ck_transfers_withdrawal CHECK ({WITHDRAWALS})",
    )
    # It refers to itself, so that dropping the old one harms none; SQLite renames that along.
    bind.exec_driver_sql(re.sub(r'(TABLE|REFERENCES) "?transfers"?', r"\1 transfers_anew", table))
    bind.exec_driver_sql("INSERT INTO transfers_anew SELECT * FROM transfers")
    bind.exec_driver_sql("DROP TABLE transfers")
    bind.exec_driver_sql("ALTER TABLE transfers_anew RENAME TO transfers")
    for kind, sql in made:
        if kind != "table":
            bind.exec_driver_sql(sql)


def _replaced(sql: str, before: str, after: str) -> str:
    if sql.count(before) != 1:
        raise RuntimeError(f"the table of transfers has not the one constraint {before}")
    return sql.replace(before, after)
