"""What an operator may tune about orders. All times are milliseconds."""

from dataclasses import dataclass

SECOND = 1_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE


@dataclass(frozen=True)
class Policy:
    """The rules of dispatch and delivery.

    Attributes:
        unit_samples: fixed number of samples of a unit; None follows the miners.
        unit_tokens: most token ids, prompts and completions together, that a unit may come to.
        lease_ms: how long a lease lives without a heartbeat.
        heartbeat_ms: how often a node is asked to send one.
        stall_ms: how long a lease is renewed without any progress.
        live_ms: how long after its last announcement a node counts as live.
        audit_backlog: units of a model that may wait for audit before no more work is given.
        leases_at_once: live leases of one kind that a node may hold.
        cancel_grace_ms: how long units in flight may go on after a cancellation.
        open_orders: most orders of an account that are open at once.
        quotes_per_day: most quotes of an account in any 24 hours.
        export_lease_ms: after how long a dead exporter's order is taken over.
        export_tries: how often an export may fail before its order does.
        tick_ms: how often the background work looks round without being woken.
    """

    unit_samples: int | None = None
    unit_tokens: int = 2**20
    lease_ms: int = MINUTE
    heartbeat_ms: int = 15 * SECOND
    stall_ms: int = 30 * MINUTE
    live_ms: int = 2 * MINUTE
    audit_backlog: int = 64
    leases_at_once: int = 32
    cancel_grace_ms: int = 2 * MINUTE
    open_orders: int = 5
    quotes_per_day: int = 200
    export_lease_ms: int = 30 * SECOND
    export_tries: int = 5
    tick_ms: int = SECOND


MAX_TRIES = 8
MAX_AUDITS = 8
