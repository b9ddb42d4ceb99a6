"""Leases: who holds a unit, to generate or to audit it, and what came of it."""

from enum import StrEnum

from sqlalchemy import Index
from sqlalchemy import text as sql

from gateway.store.tables.base import Table, big, new_id, one_of, text, word


class LeaseKind(StrEnum):
    """What the holder does with the unit."""

    GENERATE = "generate"
    AUDIT = "audit"


class LeaseState(StrEnum):
    """``live``, or how the lease ended."""

    LIVE = "live"
    ANSWERED = "answered"
    REFUSED = "refused"
    RELEASED = "released"
    EXPIRED = "expired"
    STOPPED = "stopped"


class Lease(Table, table=True):
    """One lease of one unit to one hotkey.

    ``coldkey`` owned the hotkey when the lease was granted. No heartbeat renews it past
    ``ends_at_ms``. A generation lease carries the gateway's ``signature`` over its statement from
    the time its work was handed out. ``tokens`` is the progress the holder reported last, at
    ``progress_at_ms``. ``answer_sha256`` is of the document that ended the lease and ``answer``
    what was replied, so that a replay of the same bytes gets the same reply. ``object_key`` is that
    document, ``root`` the Merkle root in it. ``audited_lease_id`` is the generation lease that an
    audit lease judges, ``review_id`` the review for which it does. ``stack_json`` is the stack that
    the holder had announced, which its answer must be of.
    """

    __table_args__ = (
        one_of("kind", LeaseKind),
        one_of("state", LeaseState),
        Index(None, "state", "expires_at_ms"),
        Index(None, "hotkey", "state"),
        Index(None, "hotkey", "ended_at_ms"),
        # The judge of all claims: no two generation leases of a unit share an attempt.
        Index(
            None,
            "unit_id",
            "attempt",
            unique=True,
            sqlite_where=sql("kind = 'generate'"),
            postgresql_where=sql("kind = 'generate'"),
        ),
    )

    id: str = word(primary_key=True, default_factory=new_id)
    unit_id: str = word(foreign_key="units.id", index=True)
    order_id: str = word(foreign_key="orders.id", index=True)
    kind: str = word()
    hotkey: str = word()
    coldkey: str = word()
    attempt: int = big()
    state: str = word(LeaseState.LIVE)
    granted_at_ms: int = big()
    expires_at_ms: int = big()
    ends_at_ms: int = big()
    progress_at_ms: int = big()
    tokens: int = big(0)
    signature: str | None = word(None)
    audited_lease_id: str | None = word(None)
    review_id: str | None = word(None)
    stack_json: str | None = text(None)
    answer_sha256: str | None = word(None)
    answer: str | None = text(None)
    object_key: str | None = word(None)
    root: str | None = word(None)
    ended_at_ms: int | None = big(None)
