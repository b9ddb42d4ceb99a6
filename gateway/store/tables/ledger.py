"""The ledger: accounts by double entry, and the transfers between them, which never change."""

from enum import StrEnum

from sqlalchemy import CheckConstraint, ForeignKeyConstraint, UniqueConstraint

from gateway.store.tables.base import Table, big, one_of, word


class LedgerKind(StrEnum):
    """Whose an account of the ledger is.

    What customers paid in is a debit of ``cash`` and a credit of theirs; what they are charged is a
    debit of theirs and a credit of ``revenue``.
    """

    CASH = "cash"
    REVENUE = "revenue"
    CUSTOMER = "customer"


class LedgerAccount(Table, table=True):
    """An account of the ledger and the sums of its transfers, in nano-USD.

    ``id`` is the kind, and for a customer's ``customer:<account id>``. What is held is pending.
    """

    __table_args__ = (
        one_of("kind", LedgerKind),
        CheckConstraint(
            "debits_pending >= 0 AND debits_posted >= 0"
            " AND credits_pending >= 0 AND credits_posted >= 0",
            name="sums",
        ),
        # No overdraft: what is held counts as spent.
        CheckConstraint(
            "kind <> 'customer' OR debits_pending + debits_posted <= credits_posted",
            name="overdraft",
        ),
        CheckConstraint("(kind = 'customer') = (account_id IS NOT NULL)", name="owner"),
        UniqueConstraint("account_id"),
    )

    id: str = word(primary_key=True)
    kind: str = word()
    account_id: str | None = word(None, foreign_key="accounts.id")
    debits_pending: int = big(0)
    debits_posted: int = big(0)
    credits_pending: int = big(0)
    credits_posted: int = big(0)


class TransferKind(StrEnum):
    """What a transfer does: posts at once, holds, posts a part of what is held, or lets it go.

    A refund gives back of what was charged, a withdrawal takes back of what was paid in.
    """

    TOP_UP = "top_up"
    HOLD = "hold"
    CAPTURE = "capture"
    VOID = "void"
    REFUND = "refund"
    WITHDRAWAL = "withdrawal"


class Transfer(Table, table=True):
    """One movement of money; the database refuses to change or delete it.

    ``id`` follows from what caused it: ``hold:<order id>``, ``capture:<order id>``,
    ``void:<order id>``, ``top_up:<the operator's own id>``, ``refund:<order id>:<review id>``,
    ``withdrawal:<the operator's own id>``.
    ``amount_nano`` is what a hold sets aside and what the others post. A capture or a void ends the
    hold ``hold_id`` of ``held_nano``; what it does not post is the customer's again.
    """

    __table_args__ = (
        one_of("kind", TransferKind),
        CheckConstraint("debit_id <> credit_id", name="sides"),
        CheckConstraint(
            "(kind = 'void' AND amount_nano = 0) OR (kind <> 'void' AND amount_nano > 0)",
            name="amount",
        ),
        CheckConstraint("amount_nano <= held_nano", name="held"),
        CheckConstraint("(kind IN ('capture', 'void')) = (hold_id IS NOT NULL)", name="hold"),
        CheckConstraint("(hold_id IS NULL) = (held_nano IS NULL)", name="held_nano"),
        CheckConstraint("(kind IN ('top_up', 'withdrawal')) = (order_id IS NULL)", name="order"),
        CheckConstraint("kind <> 'withdrawal' OR credit_id = 'cash'", name="withdrawal"),
        CheckConstraint(
            "order_id IS NULL OR kind = 'refund' OR id = kind || ':' || order_id", name="id"
        ),
        CheckConstraint(
            "kind <> 'refund' OR (debit_id = 'revenue'"
            " AND substr(id, 1, length(order_id) + 8) = 'refund:' || order_id || ':')",
            name="refund",
        ),
        CheckConstraint("hold_id IS NULL OR hold_id = 'hold:' || order_id", name="hold_id"),
        # Each hold is ended at most once, by a transfer between the same accounts.
        UniqueConstraint("hold_id"),
        UniqueConstraint("id", "amount_nano", "debit_id", "credit_id"),
        ForeignKeyConstraint(
            ["hold_id", "held_nano", "debit_id", "credit_id"],
            [
                "transfers.id",
                "transfers.amount_nano",
                "transfers.debit_id",
                "transfers.credit_id",
            ],
        ),
    )

    id: str = word(primary_key=True)
    kind: str = word()
    debit_id: str = word(foreign_key="ledger_accounts.id", index=True)
    credit_id: str = word(foreign_key="ledger_accounts.id", index=True)
    amount_nano: int = big()
    order_id: str | None = word(None, foreign_key="orders.id", index=True)
    hold_id: str | None = word(None)
    held_nano: int | None = big(None)
    created_at_ms: int = big()
