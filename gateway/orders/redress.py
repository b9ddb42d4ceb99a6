"""Delivered work that a distrusted validator alone had judged: judged again, and paid back.

What is delivered stays, and so do all counts of the order. Another owner's validator judges the
result once more; what it finds void is no longer charged, and the difference is given back in the
transaction that closes the review. No miner is blamed: the customer's doubt costs the house alone.
"""

from collections.abc import Sequence

import structlog
from sqlalchemy.orm import aliased
from sqlmodel import col, exists, func, or_, select
from sqlmodel.ext.asyncio.session import AsyncSession

from gateway.ledger.charges import charge_of
from gateway.ledger.transfers import net_charge, refund
from gateway.orders.aftermath import Aftermath
from gateway.orders.judges import judges_left
from gateway.orders.leases import Held
from gateway.orders.policy import Policy
from gateway.orders.reviews import offer
from gateway.orders.rows import lock_order
from gateway.orders.samples import VERIFIED, VOID
from gateway.orders.settling import verified_tokens
from gateway.orders.stored_results import sample_lengths
from gateway.store.engine import Store
from gateway.store.tables import (
    Lease,
    Node,
    Order,
    OrderStatus,
    Review,
    ReviewEnd,
    ReviewState,
    Unit,
    Verdict,
)
from scoring.opinions import overruled

ENDED = (OrderStatus.COMPLETED, OrderStatus.EXPIRED, OrderStatus.CANCELLED)
# So many results of ended orders are taken up at a time.
AT_ONCE = 100

log = structlog.get_logger("gateway.redress")


async def take_up(store: Store, now_ms: int) -> None:
    """Have judged again what distrusted validators alone verified in orders that have ended."""
    async with store.read() as session:
        verdicts = (await session.exec(_in_doubt(now_ms))).all()
    for verdict in verdicts:
        async with store.write() as session:
            await lock_order(session, verdict.order_id)
            if await _is_taken_up(session, verdict.result_lease_id):
                continue
            session.add(
                Review(
                    order_id=verdict.order_id,
                    unit_id=verdict.unit_id,
                    result_lease_id=verdict.result_lease_id,
                    state=ReviewState.OPEN,
                    created_at_ms=now_ms,
                    offered_at_ms=now_ms,
                    delivered=True,
                )
            )
        log.warning("delivered work is judged again", order_id=verdict.order_id)
    if verdicts:
        store.announce_news()


def _in_doubt(now_ms: int):
    """Return what selects the verdicts of distrusted owners that nobody else shared."""
    taken_up = exists().where(
        col(Review.result_lease_id) == col(Verdict.result_lease_id), col(Review.delivered)
    )
    distrusted = exists().where(
        col(Node.coldkey) == col(Lease.coldkey), col(Node.distrusted_until_ms) > now_ms
    )
    other, other_lease = aliased(Verdict), aliased(Lease)
    shared = exists().where(
        col(other.result_lease_id) == col(Verdict.result_lease_id),
        col(other_lease.id) == col(other.id),
        col(other_lease.coldkey) != col(Lease.coldkey),
        col(other.withdrawn_at_ms).is_(None),
        or_(col(other.verified) > 0, col(other.void) > 0),
    )
    return (
        select(Verdict)
        .join(Lease, col(Lease.id) == col(Verdict.id))
        .join(Order, col(Order.id) == col(Verdict.order_id))
        .where(
            distrusted,
            col(Order.status).in_(ENDED),
            col(Verdict.newly_verified) > 0,
            col(Verdict.withdrawn_at_ms).is_(None),
            ~shared,
            ~taken_up,
        )
        .order_by(col(Verdict.created_at_ms).desc())
        .limit(AT_ONCE)
    )


async def _is_taken_up(session: AsyncSession, result_lease_id: str) -> bool:
    statement = select(Review.id).where(
        col(Review.result_lease_id) == result_lease_id, col(Review.delivered)
    )
    return (await session.exec(statement)).first() is not None


async def weigh(
    session: AsyncSession,
    held: Held,
    result_lease: Lease,
    lengths: Sequence[int],
    policy: Policy,
    now_ms: int,
) -> Aftermath:
    """Take one more opinion on delivered samples into account: ask for another, or close.

    A void is asked about once more where another owner's validator lives. Where none does, or the
    opinions are tied, the customer is believed to have been given what is void.

    Args:
        held: the audit lease with its review, its order locked.
        lengths: of the result's samples, in ids.

    Returns:
        The owners that most others contradict; never a letter for the miner.
    """
    await session.flush()
    opinions = await _opinions(session, held)
    places = [place for place, letter in enumerate(held.unit.outcomes) if letter == VERIFIED]
    columns = {place: [letters[place] for letters in opinions.values()] for place in places}
    unjudged = any(not _judges(column) for column in columns.values())
    lone = any(_is_void(column) and _judges(column) < 2 for column in columns.values())
    tied = any(0 < column.count(VOID) == column.count(VERIFIED) for column in columns.values())
    if held.review is None:
        raise LookupError(f"audit lease {held.lease.id} has no review")
    left = await judges_left(session, held.order, result_lease, policy, now_ms)
    if unjudged or (left and (lone or tied)):
        offer(held.review, now_ms)
        return Aftermath()
    await _close(session, held.order, held.review, columns, lengths, now_ms)
    return Aftermath(wrong=frozenset(overruled(opinions)))


async def close_overdue(store: Store, policy: Policy, now_ms: int) -> None:
    """Close what nobody adds an opinion to any more by the opinions that there are."""
    judged = exists().where(
        col(Lease.review_id) == col(Review.id), col(Verdict.id) == col(Lease.id)
    )
    statement = select(Review.id).where(
        col(Review.delivered),
        col(Review.state) == ReviewState.OPEN,
        col(Review.offered_at_ms) <= now_ms - policy.review_ms,
        judged,
    )
    async with store.read() as session:
        review_ids = (await session.exec(statement)).all()
    for review_id in review_ids:
        await _close_overdue(store, review_id, now_ms)


async def _close_overdue(store: Store, review_id: str, now_ms: int) -> None:
    async with store.read() as session:
        seen = await session.get_one(Review, review_id)
        result_lease = await session.get_one(Lease, seen.result_lease_id)
    document = await store.objects.get(result_lease.object_key or "")
    async with store.write() as session:
        order = await lock_order(session, seen.order_id)
        review = await session.get_one(Review, review_id, populate_existing=True)
        unit = await session.get_one(Unit, seen.unit_id)
        if order is None or review.state != ReviewState.OPEN:
            return
        opinions = await _opinions(session, Held(result_lease, unit, order, review))
        columns = {
            place: [letters[place] for letters in opinions.values()]
            for place, letter in enumerate(unit.outcomes)
            if letter == VERIFIED
        }
        if any(_judges(column) for column in columns.values()):
            await _close(session, order, review, columns, sample_lengths(document), now_ms)


async def _opinions(session: AsyncSession, held: Held) -> dict[str, str]:
    """Return the letters of the verdicts of a review, by owner."""
    statement = (
        select(Lease.coldkey, Verdict.outcomes)
        .join(Verdict, col(Verdict.id) == col(Lease.id))
        .where(col(Lease.review_id) == (held.review.id if held.review else None))
        .order_by(col(Verdict.created_at_ms))
    )
    return dict((await session.exec(statement)).all())


def _judges(column: Sequence[str]) -> int:
    return column.count(VERIFIED) + column.count(VOID)


def _is_void(column: Sequence[str]) -> bool:
    """Say whether a delivered sample counts as failed: in doubt, for the customer."""
    return 0 < column.count(VOID) >= column.count(VERIFIED)


async def _close(
    session: AsyncSession,
    order: Order,
    review: Review,
    columns: dict[int, list[str]],
    lengths: Sequence[int],
    now_ms: int,
) -> None:
    """Close a review and give back what its failed samples had cost."""
    failed = [place for place, column in columns.items() if _is_void(column)]
    review.state = ReviewState.CLOSED
    review.ending = ReviewEnd.OVERRULED if failed else ReviewEnd.AGREED
    review.closed_at_ms = now_ms
    review.failed_samples = len(failed)
    review.failed_tokens = sum(lengths[place] for place in failed)
    session.add(review)
    await session.flush()
    verified = await verified_tokens(session, order.id) - await _failed_tokens(session, order.id)
    due = await net_charge(session, order.id) - charge_of(order, verified)
    if due > 0:
        await refund(session, order.account_id, order.id, due, review.id, now_ms)
        log.warning("given back", order_id=order.id, nano_usd=due, samples=len(failed))


async def _failed_tokens(session: AsyncSession, order_id: str) -> int:
    statement = select(func.coalesce(func.sum(Review.failed_tokens), 0)).where(
        col(Review.order_id) == order_id
    )
    return int((await session.exec(statement)).one() or 0)
