"""Reviews: whether a judged unit gets a second opinion, and what came of it."""

from enum import StrEnum

from sqlalchemy import CheckConstraint, Index
from sqlalchemy import text as sql

from gateway.store.tables.base import Table, big, new_id, one_of, word


class ReviewState(StrEnum):
    """``awaited``: a block decides; ``open``: it waits for a validator; ``closed`` is final."""

    AWAITED = "awaited"
    OPEN = "open"
    AUDITING = "auditing"
    CLOSED = "closed"


class ReviewEnd(StrEnum):
    """How a review ended.

    Not drawn; no validator of another owner lived; the opinions agreed; some were overruled by
    most others; nobody could break a tie; it took too long; its first verdict was withdrawn.
    """

    PASSED_OVER = "passed_over"
    ALONE = "alone"
    AGREED = "agreed"
    OVERRULED = "overruled"
    UNRESOLVED = "unresolved"
    LATE = "late"
    WITHDRAWN = "withdrawn"


class Review(Table, table=True):
    """The second opinion on a unit's result.

    ``block`` is the first one that was not there when the unit was judged, ``block_hash`` its hash,
    which with the unit's id decides whether it is drawn. One of a ``delivered`` result has the
    samples, and their ids, that it found to fail, once it is closed (``orders/redress.py``).
    """

    __table_args__ = (
        one_of("state", ReviewState),
        one_of("ending", ReviewEnd),
        CheckConstraint("(failed_samples IS NULL) = (failed_tokens IS NULL)", name="failed"),
        CheckConstraint("delivered OR failed_samples IS NULL", name="delivered"),
        Index(None, "state", "offered_at_ms"),
        # A result is judged again after its delivery at most once.
        Index(
            "ix_reviews_delivered",
            "result_lease_id",
            unique=True,
            sqlite_where=sql("delivered"),
            postgresql_where=sql("delivered"),
        ),
    )

    id: str = word(primary_key=True, default_factory=new_id)
    order_id: str = word(foreign_key="orders.id", index=True)
    unit_id: str = word(foreign_key="units.id", index=True)
    result_lease_id: str = word(foreign_key="leases.id")
    state: str = word()
    ending: str | None = word(None)
    block: int | None = big(None)
    block_hash: str | None = word(None)
    created_at_ms: int = big()
    offered_at_ms: int = big()
    closed_at_ms: int | None = big(None)
    delivered: bool = False
    failed_samples: int | None = big(None)
    failed_tokens: int | None = big(None)
