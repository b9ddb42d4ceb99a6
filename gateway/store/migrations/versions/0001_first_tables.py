"""The first tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create accounts, keys, files, orders, units, leases, verdicts and nodes."""
    op.create_table(
        "accounts",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("state IN ('open', 'closed')", name=op.f("ck_accounts_state")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_accounts")),
        sa.UniqueConstraint("name", name=op.f("uq_accounts_name")),
    )
    op.create_table(
        "nodes",
        sa.Column("hotkey", sa.String(), nullable=False),
        sa.Column("role", sa.String(), nullable=False),
        sa.Column("stack_json", sa.Text(), nullable=False),
        sa.Column("architectures_json", sa.Text(), nullable=False),
        sa.Column("loaded_model", sa.String(), nullable=True),
        sa.Column("loaded_revision", sa.String(), nullable=True),
        sa.Column("max_samples", sa.BigInteger(), nullable=False),
        sa.Column("registered_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("seen_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("tokens_per_second", sa.Double(), nullable=True),
        sa.Column("outcomes", sa.Text(), nullable=False),
        sa.CheckConstraint("role IN ('miner', 'validator')", name=op.f("ck_nodes_role")),
        sa.PrimaryKeyConstraint("hotkey", name=op.f("pk_nodes")),
    )
    op.create_index(op.f("ix_nodes_role_seen_at_ms"), "nodes", ["role", "seen_at_ms"], unique=False)
    op.create_table(
        "api_keys",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("account_id", sa.String(), nullable=False),
        sa.Column("sha256", sa.String(), nullable=False),
        sa.Column("prefix", sa.String(), nullable=False),
        sa.Column("scopes", sa.String(), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("expires_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("revoked_at_ms", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_api_keys_account_id_accounts")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_api_keys")),
        sa.UniqueConstraint("sha256", name=op.f("uq_api_keys_sha256")),
    )
    op.create_index(op.f("ix_api_keys_account_id"), "api_keys", ["account_id"], unique=False)
    op.create_table(
        "orders",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("account_id", sa.String(), nullable=False),
        sa.Column("input_file_id", sa.String(), nullable=False),
        sa.Column("quoted_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("dialect", sa.String(), nullable=False),
        sa.Column("endpoint", sa.String(), nullable=False),
        sa.Column("completion_window_hours", sa.Integer(), nullable=False),
        sa.Column("metadata_json", sa.Text(), nullable=True),
        sa.Column("idempotency_key", sa.String(), nullable=True),
        sa.Column("body_sha256", sa.String(), nullable=False),
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("revision", sa.String(), nullable=False),
        sa.Column("architecture", sa.String(), nullable=False),
        sa.Column("vocabulary_size", sa.BigInteger(), nullable=False),
        sa.Column("end_ids_json", sa.Text(), nullable=False),
        sa.Column("temperature", sa.Double(), nullable=False),
        sa.Column("top_p", sa.Double(), nullable=False),
        sa.Column("top_k", sa.BigInteger(), nullable=False),
        sa.Column("min_p", sa.Double(), nullable=False),
        sa.Column("max_tokens", sa.BigInteger(), nullable=False),
        sa.Column("n", sa.Integer(), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("seed_drawn", sa.Boolean(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("ending", sa.String(), nullable=True),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("expires_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("in_progress_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("finalizing_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("cancelling_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("completed_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("expired_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("cancelled_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("failed_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("failure_code", sa.String(), nullable=True),
        sa.Column("failure_message", sa.Text(), nullable=True),
        sa.Column("lines_total", sa.BigInteger(), nullable=False),
        sa.Column("lines_refused", sa.BigInteger(), nullable=False),
        sa.Column("lines_usable", sa.BigInteger(), nullable=False),
        sa.Column("prompt_tokens", sa.BigInteger(), nullable=False),
        sa.Column("longest_prompt", sa.BigInteger(), nullable=False),
        sa.Column("samples_total", sa.BigInteger(), nullable=False),
        sa.Column("cursor_line", sa.BigInteger(), nullable=False),
        sa.Column("lines_completed", sa.BigInteger(), nullable=False),
        sa.Column("samples_verified", sa.BigInteger(), nullable=False),
        sa.Column("samples_missing", sa.BigInteger(), nullable=False),
        sa.Column("samples_void", sa.BigInteger(), nullable=False),
        sa.Column("tokens_verified", sa.BigInteger(), nullable=False),
        sa.Column("export_holder", sa.String(), nullable=True),
        sa.Column("export_until_ms", sa.BigInteger(), nullable=True),
        sa.Column("export_tries", sa.BigInteger(), nullable=False),
        sa.Column("output_file_id", sa.String(), nullable=True),
        sa.Column("error_file_id", sa.String(), nullable=True),
        sa.Column("receipts_key", sa.String(), nullable=True),
        sa.CheckConstraint(
            "dialect IN ('openai', 'openrelay', 'native')", name=op.f("ck_orders_dialect")
        ),
        sa.CheckConstraint(
            "ending IN ('completed', 'expired', 'cancelled')", name=op.f("ck_orders_ending")
        ),
        sa.CheckConstraint(
            "status IN ('validating', 'in_progress', 'finalizing', 'cancelling', "
            "'completed', 'expired', 'cancelled', 'failed')",
            name=op.f("ck_orders_status"),
        ),
        sa.CheckConstraint("cursor_line BETWEEN 0 AND lines_usable", name=op.f("ck_orders_cursor")),
        sa.CheckConstraint(
            "lines_completed BETWEEN 0 AND lines_usable", name=op.f("ck_orders_lines")
        ),
        sa.CheckConstraint("lines_usable * n = samples_total", name=op.f("ck_orders_samples")),
        sa.CheckConstraint("n BETWEEN 1 AND 64", name=op.f("ck_orders_n")),
        sa.CheckConstraint(
            "samples_verified + samples_missing <= samples_total", name=op.f("ck_orders_total")
        ),
        sa.CheckConstraint(
            "samples_verified >= 0 AND samples_missing >= 0", name=op.f("ck_orders_counts")
        ),
        sa.CheckConstraint("seed BETWEEN 0 AND 9007199254740991", name=op.f("ck_orders_seed")),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_orders_account_id_accounts")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_orders")),
        sa.UniqueConstraint(
            "account_id", "idempotency_key", name=op.f("uq_orders_account_id_idempotency_key")
        ),
    )
    op.create_index(
        op.f("ix_orders_account_id_created_at_ms_id"),
        "orders",
        ["account_id", "created_at_ms", "id"],
        unique=False,
    )
    op.create_index(
        op.f("ix_orders_status_expires_at_ms"), "orders", ["status", "expires_at_ms"], unique=False
    )
    op.create_table(
        "files",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("account_id", sa.String(), nullable=False),
        sa.Column("order_id", sa.String(), nullable=True),
        sa.Column("filename", sa.String(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("sha256", sa.String(), nullable=False),
        sa.Column("purpose", sa.String(), nullable=False),
        sa.Column("object_key", sa.String(), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("deleted_at_ms", sa.BigInteger(), nullable=True),
        sa.CheckConstraint("purpose IN ('batch', 'batch_output')", name=op.f("ck_files_purpose")),
        sa.CheckConstraint("bytes >= 0", name=op.f("ck_files_bytes")),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_files_account_id_accounts")
        ),
        sa.ForeignKeyConstraint(["order_id"], ["orders.id"], name=op.f("fk_files_order_id_orders")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_files")),
    )
    op.create_index(
        op.f("ix_files_account_id_created_at_ms_id"),
        "files",
        ["account_id", "created_at_ms", "id"],
        unique=False,
    )
    op.create_table(
        "units",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("order_id", sa.String(), nullable=False),
        sa.Column("root_id", sa.String(), nullable=False),
        sa.Column("parent_id", sa.String(), nullable=True),
        sa.Column("first_line", sa.BigInteger(), nullable=False),
        sa.Column("end_line", sa.BigInteger(), nullable=False),
        sa.Column("ordinals", sa.LargeBinary(), nullable=True),
        sa.Column("samples", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("attempt", sa.BigInteger(), nullable=False),
        sa.Column("tries", sa.BigInteger(), nullable=False),
        sa.Column("failed_by", sa.Text(), nullable=False),
        sa.Column("outcomes", sa.Text(), nullable=False),
        sa.Column("audits", sa.BigInteger(), nullable=False),
        sa.Column("result_lease_id", sa.String(), nullable=True),
        sa.Column("verified_bits", sa.LargeBinary(), nullable=True),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("submitted_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("closed_at_ms", sa.BigInteger(), nullable=True),
        sa.CheckConstraint(
            "state IN ('open', 'leased', 'submitted', 'auditing', 'closed')",
            name=op.f("ck_units_state"),
        ),
        sa.CheckConstraint(
            "(parent_id IS NULL) = (ordinals IS NULL)", name=op.f("ck_units_ordinals")
        ),
        sa.CheckConstraint(
            "(parent_id IS NULL) = (verified_bits IS NOT NULL)", name=op.f("ck_units_verified_bits")
        ),
        sa.CheckConstraint("first_line < end_line", name=op.f("ck_units_lines")),
        sa.CheckConstraint("samples BETWEEN 1 AND 4096", name=op.f("ck_units_samples")),
        sa.ForeignKeyConstraint(["order_id"], ["orders.id"], name=op.f("fk_units_order_id_orders")),
        sa.ForeignKeyConstraint(["parent_id"], ["units.id"], name=op.f("fk_units_parent_id_units")),
        sa.ForeignKeyConstraint(["root_id"], ["units.id"], name=op.f("fk_units_root_id_units")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_units")),
    )
    op.create_index(op.f("ix_units_order_id_state"), "units", ["order_id", "state"], unique=False)
    op.create_index(op.f("ix_units_root_id"), "units", ["root_id"], unique=False)
    op.create_index(
        op.f("ix_units_state_submitted_at_ms"), "units", ["state", "submitted_at_ms"], unique=False
    )
    op.create_table(
        "leases",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("unit_id", sa.String(), nullable=False),
        sa.Column("order_id", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("hotkey", sa.String(), nullable=False),
        sa.Column("attempt", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("granted_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("expires_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("progress_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("tokens", sa.BigInteger(), nullable=False),
        sa.Column("signature", sa.String(), nullable=True),
        sa.Column("audited_lease_id", sa.String(), nullable=True),
        sa.Column("stack_json", sa.Text(), nullable=True),
        sa.Column("answer_sha256", sa.String(), nullable=True),
        sa.Column("answer", sa.Text(), nullable=True),
        sa.Column("object_key", sa.String(), nullable=True),
        sa.Column("root", sa.String(), nullable=True),
        sa.Column("ended_at_ms", sa.BigInteger(), nullable=True),
        sa.CheckConstraint("kind IN ('generate', 'audit')", name=op.f("ck_leases_kind")),
        sa.CheckConstraint(
            "state IN ('live', 'answered', 'refused', 'released', 'expired', 'stopped')",
            name=op.f("ck_leases_state"),
        ),
        sa.ForeignKeyConstraint(
            ["order_id"], ["orders.id"], name=op.f("fk_leases_order_id_orders")
        ),
        sa.ForeignKeyConstraint(["unit_id"], ["units.id"], name=op.f("fk_leases_unit_id_units")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_leases")),
    )
    op.create_index(op.f("ix_leases_hotkey_state"), "leases", ["hotkey", "state"], unique=False)
    op.create_index(op.f("ix_leases_order_id"), "leases", ["order_id"], unique=False)
    op.create_index(
        op.f("ix_leases_state_expires_at_ms"), "leases", ["state", "expires_at_ms"], unique=False
    )
    op.create_index(op.f("ix_leases_unit_id"), "leases", ["unit_id"], unique=False)
    op.create_index(
        op.f("ix_leases_unit_id_attempt"),
        "leases",
        ["unit_id", "attempt"],
        unique=True,
        sqlite_where=sa.text("kind = 'generate'"),
        postgresql_where=sa.text("kind = 'generate'"),
    )
    op.create_table(
        "verdicts",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("order_id", sa.String(), nullable=False),
        sa.Column("unit_id", sa.String(), nullable=False),
        sa.Column("result_lease_id", sa.String(), nullable=False),
        sa.Column("validator", sa.String(), nullable=False),
        sa.Column("miner", sa.String(), nullable=False),
        sa.Column("rule", sa.String(), nullable=False),
        sa.Column("verified", sa.BigInteger(), nullable=False),
        sa.Column("void", sa.BigInteger(), nullable=False),
        sa.Column("inconclusive", sa.BigInteger(), nullable=False),
        sa.Column("newly_verified", sa.BigInteger(), nullable=False),
        sa.Column("tokens", sa.BigInteger(), nullable=False),
        sa.Column("object_key", sa.String(), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.CheckConstraint(
            "newly_verified BETWEEN 0 AND verified", name=op.f("ck_verdicts_newly_verified")
        ),
        sa.CheckConstraint(
            "verified >= 0 AND void >= 0 AND inconclusive >= 0 AND tokens >= 0",
            name=op.f("ck_verdicts_counts"),
        ),
        sa.ForeignKeyConstraint(["id"], ["leases.id"], name=op.f("fk_verdicts_id_leases")),
        sa.ForeignKeyConstraint(
            ["order_id"], ["orders.id"], name=op.f("fk_verdicts_order_id_orders")
        ),
        sa.ForeignKeyConstraint(
            ["result_lease_id"], ["leases.id"], name=op.f("fk_verdicts_result_lease_id_leases")
        ),
        sa.ForeignKeyConstraint(["unit_id"], ["units.id"], name=op.f("fk_verdicts_unit_id_units")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_verdicts")),
    )
    op.create_index(op.f("ix_verdicts_miner"), "verdicts", ["miner"], unique=False)
    op.create_index(op.f("ix_verdicts_order_id"), "verdicts", ["order_id"], unique=False)
    op.create_index(op.f("ix_verdicts_unit_id"), "verdicts", ["unit_id"], unique=False)
    op.create_index(op.f("ix_verdicts_validator"), "verdicts", ["validator"], unique=False)
