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
        unit_ms: a unit is no larger than its miner does in this time, where its speed is known.
        unit_tokens: most token ids, prompts and completions together, that a unit may come to.
        lease_ms: how long a lease lives without a heartbeat.
        heartbeat_ms: how often a node is asked to send one.
        stall_ms: how long a lease is renewed without any progress.
        slowest_tokens_per_second: of a miner whose leases still last to their end.
        slowest_audit_tokens_per_second: the same of a validator, prompts counted too.
        shortest_term_ms: no lease has to end sooner than this after it was granted.
        window_share: most of what is left of an order's window that one lease may take up.
        exclusion_ms: how long work waits for another than who failed it, once it is offered again.
        unanswered_leases: leases of a node that may end without an answer in ``unanswered_ms``
            before it has to answer as many.
        unanswered_ms: how long such a lease counts.
        second_opinions: share of judged units that go to a second validator; those with void
            samples always do. 0 asks for none at all.
        known_answers: share of judged units whose right verdicts are known to the gateway.
        review_ms: how long a delivery waits for a second opinion.
        distrust_ms: how long a validator is believed nothing once others contradict it.
        live_ms: how long after its last announcement a node counts as live.
        audit_backlog: units of a model that may wait for audit before no more work is given.
        leases_at_once: live leases of one kind that a node may hold.
        cancel_grace_ms: how long units in flight may go on after a cancellation.
        open_orders: most orders of an account that are open at once.
        quotes_per_day: most quotes of an account in any 24 hours.
        kept_quote_bytes: what an account's kept quotes that nobody ordered may come to; the oldest
            make room for newer ones.
        export_lease_ms: after how long a dead exporter's order is taken over.
        export_tries: how often an export may fail before its order does.
        shard_rows, shard_bytes: a file of a native delivery ends once it has as many.
        epoch_ms: length of an epoch, of which each has its public record.
        emission_nano: what the emission of an epoch is worth in nano-USD, None where nobody says.
        tick_ms: how often the background work looks round without being woken.
    """

    unit_samples: int | None = None
    unit_ms: int = 5 * MINUTE
    unit_tokens: int = 2**20
    lease_ms: int = MINUTE
    heartbeat_ms: int = 15 * SECOND
    stall_ms: int = 30 * MINUTE
    slowest_tokens_per_second: float = 10.0
    slowest_audit_tokens_per_second: float = 100.0
    shortest_term_ms: int = 10 * MINUTE
    window_share: float = 0.25
    exclusion_ms: int = 10 * MINUTE
    unanswered_leases: int = 16
    unanswered_ms: int = HOUR
    second_opinions: float = 0.0
    known_answers: float = 0.0
    review_ms: int = HOUR
    distrust_ms: int = 6 * HOUR
    live_ms: int = 2 * MINUTE
    audit_backlog: int = 64
    leases_at_once: int = 32
    cancel_grace_ms: int = 2 * MINUTE
    open_orders: int = 5
    quotes_per_day: int = 200
    kept_quote_bytes: int = 2**30
    export_lease_ms: int = 30 * SECOND
    export_tries: int = 5
    shard_rows: int = 50_000
    shard_bytes: int = 2**27
    epoch_ms: int = 72 * MINUTE
    emission_nano: int | None = None
    tick_ms: int = SECOND


# An audit of what was delivered has no window to be done in; its lease ends as if it had this one.
REDRESS_MS = 24 * HOUR
MAX_TRIES = 8
MAX_AUDITS = 8


def generation_end(
    policy: Policy, samples: int, max_tokens: int, window_end_ms: int, now_ms: int
) -> int:
    """Return when a generation lease ends at the latest, whatever progress its holder tells of.

    Progress is the holder's own word; the time that a slow miner needs for the longest answers is
    not. The order's window leaves room for others after it.
    """
    seconds = samples * max_tokens / policy.slowest_tokens_per_second
    return _end(policy, seconds, window_end_ms, now_ms)


def audit_end(policy: Policy, tokens: int, window_end_ms: int, now_ms: int) -> int:
    """Return when an audit lease ends at the latest; ``tokens`` are all that must be computed."""
    seconds = tokens / policy.slowest_audit_tokens_per_second
    return _end(policy, seconds, window_end_ms, now_ms)


def _end(policy: Policy, seconds: float, window_end_ms: int, now_ms: int) -> int:
    share = policy.window_share * (window_end_ms - now_ms)
    term = max(policy.shortest_term_ms, min(seconds * SECOND, share))
    return min(now_ms + round(term), window_end_ms)


def is_excluded(policy: Policy, offered_at_ms: int, now_ms: int) -> bool:
    """Say whether work that is offered again still waits for others than those who failed it.

    For a while only: one that could take it and never does must not keep it from the rest.
    """
    return now_ms < offered_at_ms + policy.exclusion_ms


def is_unreliable(policy: Policy, answered: int, unanswered: int) -> bool:
    """Say whether a node's latest leases ended without an answer too often, one way or another."""
    return unanswered >= policy.unanswered_leases and unanswered > answered
