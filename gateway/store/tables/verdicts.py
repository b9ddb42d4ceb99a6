"""Verdicts: one row for every accepted verdict document. Charges derive from these rows alone."""

from sqlalchemy import CheckConstraint

from gateway.store.tables.base import Table, big, text, word


class Verdict(Table, table=True):
    """What one audit lease found; ``id`` is that lease's.

    ``outcomes`` has one letter a sample (see ``orders/samples.py``). ``withdrawn_at_ms`` is when it
    ceased to be believed: then another document verifies what it did.

    ``newly_verified`` and ``tokens`` count the samples, and their token ids, that this document was
    the first to verify.
    """

    __table_args__ = (
        CheckConstraint(
            "verified >= 0 AND void >= 0 AND inconclusive >= 0 AND tokens >= 0", name="counts"
        ),
        CheckConstraint("newly_verified BETWEEN 0 AND verified", name="newly_verified"),
    )

    id: str = word(primary_key=True, foreign_key="leases.id")
    order_id: str = word(foreign_key="orders.id", index=True)
    unit_id: str = word(foreign_key="units.id", index=True)
    result_lease_id: str = word(foreign_key="leases.id")
    validator: str = word(index=True)
    miner: str = word(index=True)
    rule: str = word()
    outcomes: str = text()
    verified: int = big()
    void: int = big()
    inconclusive: int = big()
    newly_verified: int = big()
    tokens: int = big()
    object_key: str = word()
    created_at_ms: int = big()
    withdrawn_at_ms: int | None = big(None)
