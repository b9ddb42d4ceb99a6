"""Files that are uploaded in parts, quotes that are kept, and the files of deliveries."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Create their tables; orders get what native ones are placed with."""
    op.add_column("files", sa.Column("uploading_until_ms", sa.BigInteger(), nullable=True))
    op.create_index(
        op.f("ix_files_uploading_until_ms"), "files", ["uploading_until_ms"], unique=False
    )
    op.create_table(
        "upload_parts",
        sa.Column("file_id", sa.String(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("sha256", sa.String(), nullable=False),
        sa.Column("object_key", sa.String(), nullable=False),
        sa.CheckConstraint("number >= 1", name=op.f("ck_upload_parts_number")),
        sa.CheckConstraint("bytes >= 1", name=op.f("ck_upload_parts_bytes")),
        sa.ForeignKeyConstraint(
            ["file_id"], ["files.id"], name=op.f("fk_upload_parts_file_id_files")
        ),
        sa.PrimaryKeyConstraint("file_id", "number", name=op.f("pk_upload_parts")),
    )
    op.create_table(
        "delivered_files",
        sa.Column("order_id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("sha256", sa.String(), nullable=False),
        sa.Column("object_key", sa.String(), nullable=False),
        sa.CheckConstraint(
            "kind IN ('output', 'errors', 'receipts', 'grades', 'report', 'manifest')",
            name=op.f("ck_delivered_files_kind"),
        ),
        sa.CheckConstraint("bytes >= 0", name=op.f("ck_delivered_files_bytes")),
        sa.ForeignKeyConstraint(
            ["order_id"], ["orders.id"], name=op.f("fk_delivered_files_order_id_orders")
        ),
        sa.PrimaryKeyConstraint("order_id", "name", name=op.f("pk_delivered_files")),
    )
    op.create_table(
        "dataset_quotes",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("account_id", sa.String(), nullable=False),
        sa.Column("input_file_id", sa.String(), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("expires_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("completion_window_hours", sa.Integer(), nullable=False),
        sa.Column("output_format", sa.String(), nullable=False),
        sa.Column("grader", sa.String(), nullable=True),
        sa.Column("max_new_tokens", sa.BigInteger(), nullable=True),
        sa.Column("quote_json", sa.Text(), nullable=False),
        sa.Column("line_errors_json", sa.Text(), nullable=False),
        sa.Column("preview_json", sa.Text(), nullable=False),
        sa.CheckConstraint(
            "output_format IN ('parquet', 'openai_jsonl')",
            name=op.f("ck_dataset_quotes_output_format"),
        ),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_dataset_quotes_account_id_accounts")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_dataset_quotes")),
    )
    op.create_index(
        op.f("ix_dataset_quotes_account_id_created_at_ms_id"),
        "dataset_quotes",
        ["account_id", "created_at_ms", "id"],
        unique=False,
    )
    op.create_index(
        op.f("ix_dataset_quotes_expires_at_ms"), "dataset_quotes", ["expires_at_ms"], unique=False
    )
    # A column with its own constraint needs no new table, which SQLite would take other tables'
    # references to the old one for.
    op.execute(
        "ALTER TABLE orders ADD COLUMN output_format VARCHAR CONSTRAINT ck_orders_output_format "
        "CHECK (output_format IN ('parquet', 'openai_jsonl'))"
    )
    op.add_column("orders", sa.Column("max_new_tokens", sa.BigInteger(), nullable=True))
