"""Work units: immutable sets of an order's samples, and how far each is."""

from enum import StrEnum

from sqlalchemy import CheckConstraint, Index

from gateway.store.tables.base import Table, big, blob, new_id, one_of, text, word


class UnitState(StrEnum):
    """Where a unit stands; ``closed`` is final."""

    OPEN = "open"
    LEASED = "leased"
    SUBMITTED = "submitted"
    AUDITING = "auditing"
    CLOSED = "closed"


class Unit(Table, table=True):
    """A set of samples that is leased, generated and audited as one.

    A root unit holds all samples of the lines ``[first_line, end_line)`` of its order. A child unit
    holds the samples that were void in its parent: ``ordinals`` are theirs (u32 little-endian,
    ascending, see Order), and its lines span them. ``attempt`` numbers the leases of the chain and
    is the fencing token; ``tries`` counts the ones that failed. ``failed_by`` are the coldkeys of
    those (a JSON list). ``offered_at_ms`` is when it began to wait for a miner or a validator.
    ``outcomes`` has one letter a sample (see ``orders/samples.py``). ``verified_bits`` is kept on
    the root: bit ``i`` (little-endian) is its sample ``i``, whoever of the chain delivered it.
    ``result_lease_id`` is the lease whose result is being audited. A known-answer unit has the
    right letters of its samples in ``known``, which are those of the result ``source_lease_id``.
    """

    __table_args__ = (
        one_of("state", UnitState),
        CheckConstraint("first_line < end_line", name="lines"),
        CheckConstraint("samples BETWEEN 1 AND 4096", name="samples"),
        CheckConstraint("(parent_id IS NULL) = (ordinals IS NULL)", name="ordinals"),
        CheckConstraint("(parent_id IS NULL) = (verified_bits IS NOT NULL)", name="verified_bits"),
        Index(None, "order_id", "state"),
        Index(None, "state", "submitted_at_ms"),
        Index(None, "root_id"),
    )

    id: str = word(primary_key=True, default_factory=new_id)
    order_id: str = word(foreign_key="orders.id")
    root_id: str = word(foreign_key="units.id")
    parent_id: str | None = word(None, foreign_key="units.id")
    first_line: int = big()
    end_line: int = big()
    ordinals: bytes | None = blob(None)
    samples: int = big()
    state: str = word(UnitState.OPEN)
    attempt: int = big(0)
    tries: int = big(0)
    failed_by: str = text("[]")
    outcomes: str = text()
    audits: int = big(0)
    result_lease_id: str | None = word(None)
    known: str | None = text(None)
    source_lease_id: str | None = word(None, index=True)
    verified_bits: bytes | None = blob(None)
    created_at_ms: int = big()
    offered_at_ms: int = big()
    submitted_at_ms: int | None = big(None)
    closed_at_ms: int | None = big(None)
