"""The background work of reviews: what the chain draws, what takes too long, whom nobody believes.

Any number of replicas may do it at once: each step reads its rows again under the order's lock.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

import structlog
from sqlalchemy import bindparam
from sqlmodel import col, or_, select
from sqlmodel.ext.asyncio.session import AsyncSession

from gateway.orders import life, redress, reviews, units
from gateway.orders.aftermath import carry_out
from gateway.orders.counting import revoke
from gateway.orders.judges import fresh_judges
from gateway.orders.leases import Held, stop
from gateway.orders.nodes import live_nodes
from gateway.orders.opinions import is_alone, shown_before
from gateway.orders.policy import Policy
from gateway.orders.rows import lock_order
from gateway.orders.samples import UNDECIDED, VERIFIED
from gateway.orders.stored_results import sample_lengths
from gateway.store.engine import Store
from gateway.store.tables import (
    Lease,
    LeaseKind,
    LeaseState,
    Node,
    NodeRole,
    Order,
    OrderStatus,
    Review,
    ReviewEnd,
    ReviewState,
    Unit,
    UnitState,
    Verdict,
)
from protocol.chain.base import Chain, ChainError, Head
from scoring.opinions import is_drawn

_DISTRUSTED = (
    select(Node.hotkey).where(col(Node.distrusted_until_ms) > bindparam("now_ms")).limit(1)
)
_UNDRAWN = select(Review).where(col(Review.state) == ReviewState.AWAITED, ~col(Review.delivered))
# Those that wait for validators, and those that wait too long.
_OFFERED_OR_LATE = select(Review.id).where(
    col(Review.state).in_((ReviewState.AWAITED, ReviewState.OPEN)),
    ~col(Review.delivered),
    or_(col(Review.state) == ReviewState.OPEN, col(Review.created_at_ms) <= bindparam("late_ms")),
)

log = structlog.get_logger("gateway.reviewing")


async def attend(store: Store, chain: Chain, policy: Policy, now_ms: int) -> None:
    """Draw what a block has decided, end what waits in vain, and audit again what is in doubt."""
    # Before anything is closed, and delivered, by the word of a validator that is not believed.
    async with store.glance() as session:
        distrusted = (await session.exec(_DISTRUSTED, params={"now_ms": now_ms})).first()
    if distrusted is not None:
        await _stop_distrusted(store, now_ms)
        await _audit_again(store, now_ms)
        await redress.take_up(store, now_ms)
    await redress.close_overdue(store, policy, now_ms)
    await _draw(store, chain, policy, now_ms)
    async with store.glance() as session:
        late = {"late_ms": now_ms - policy.review_ms}
        offered = (await session.exec(_OFFERED_OR_LATE, params=late)).all()
    for review_id in offered:
        await _end_in_vain(store, review_id, policy, now_ms)


async def _draw(store: Store, chain: Chain, policy: Policy, now_ms: int) -> None:
    """Fix the blocks that decide, the next one; where they are there, see which units they draw."""
    async with store.glance() as session:
        undrawn = (await session.exec(_UNDRAWN)).all()
    if not undrawn:
        return
    try:
        head = await chain.head()
    except ChainError as error:
        log.warning("no block to draw second opinions by", reason=str(error))
        return
    hashes: dict[int, str] = {}
    for block in sorted({review.block for review in undrawn if review.block is not None}):
        try:
            if block <= head.block:
                hashes[block] = await chain.block_hash(block)
        except ChainError as error:
            log.warning("a block to draw second opinions by is missing", reason=str(error))
    by_order: defaultdict[str, list[str]] = defaultdict(list)
    for review in undrawn:
        if review.block is None or review.block in hashes:
            by_order[review.order_id].append(review.id)
    for order_id, review_ids in by_order.items():
        await _draw_of_order(store, order_id, review_ids, head, hashes, policy, now_ms)


async def _draw_of_order(
    store: Store,
    order_id: str,
    review_ids: Sequence[str],
    head: Head,
    hashes: Mapping[int, str],
    policy: Policy,
    now_ms: int,
) -> None:
    async with store.write() as session:
        order = await lock_order(session, order_id)
        statement = select(Review).where(
            col(Review.id).in_(review_ids), col(Review.state) == ReviewState.AWAITED
        )
        for review in (await session.exec(statement)).all():
            if review.block is None:
                review.block = head.block + 1
            elif review.block in hashes:
                review.block_hash = hashes[review.block]
                if is_drawn(review.block_hash, review.unit_id, policy.second_opinions):
                    reviews.offer(review, now_ms)
                else:
                    reviews.pass_over(review, now_ms)
            session.add(review)
        if order is not None:
            await life.settle(session, order, now_ms)


async def _end_in_vain(store: Store, review_id: str, policy: Policy, now_ms: int) -> None:
    """End a review that nobody can take, or that takes too long."""
    async with store.read() as session:
        held = await _look(session, review_id)
        ending = None if held is None else await _vain(session, held, policy, now_ms)
        if held is None or ending is None:
            return
    document = await store.objects.get(held.lease.object_key or "")
    lengths = sample_lengths(document)
    shown = await shown_before(store, held.lease.id)
    async with store.write() as session:
        held = await _hold(session, review_id)
        if held is None or held.review is None:
            return
        if held.review.state in (ReviewState.AWAITED, ReviewState.OPEN):
            on = (session, held, held.lease)
            after = await reviews.close(*on, ending, lengths, shown, policy, now_ms)
            await carry_out(*on, after, policy, now_ms)
            await life.settle(session, held.order, now_ms)


async def _vain(session: AsyncSession, held: Held, policy: Policy, now_ms: int) -> ReviewEnd | None:
    review = held.review
    if review is None or review.state not in (ReviewState.AWAITED, ReviewState.OPEN):
        return None
    if now_ms >= review.created_at_ms + policy.review_ms:
        return ReviewEnd.LATE
    if review.state == ReviewState.AWAITED:
        return None
    validators = await live_nodes(session, NodeRole.VALIDATOR, policy, now_ms)
    left = await fresh_judges(session, held.order, held.lease, validators)
    return None if left else ReviewEnd.ALONE


async def _stop_distrusted(store: Store, now_ms: int) -> None:
    """Take back the audits that distrusted validators are at."""
    statement = (
        select(Lease.id)
        .join(Node, col(Node.hotkey) == col(Lease.hotkey))
        .where(
            col(Node.distrusted_until_ms) > now_ms,
            col(Lease.kind) == LeaseKind.AUDIT,
            col(Lease.state) == LeaseState.LIVE,
        )
    )
    async with store.read() as session:
        lease_ids = (await session.exec(statement)).all()
    for lease_id in lease_ids:
        await stop(store, lease_id, now_ms)


async def _audit_again(store: Store, now_ms: int) -> None:
    """Withdraw what distrusted validators alone verified and is not delivered yet."""
    statement = (
        select(Verdict.id)
        .join(Lease, col(Lease.id) == col(Verdict.id))
        .join(Node, col(Node.coldkey) == col(Lease.coldkey))
        .join(Order, col(Order.id) == col(Verdict.order_id))
        .where(
            col(Node.distrusted_until_ms) > now_ms,
            col(Verdict.newly_verified) > 0,
            col(Verdict.outcomes) != "",
            col(Order.status) == OrderStatus.IN_PROGRESS,
        )
        .distinct()
    )
    async with store.read() as session:
        verdict_ids = (await session.exec(statement)).all()
    for verdict_id in verdict_ids:
        await _withdraw(store, verdict_id, now_ms)


async def _withdraw(store: Store, verdict_id: str, now_ms: int) -> None:
    async with store.read() as session:
        verdict = await session.get(Verdict, verdict_id)
        result_lease = (
            None if verdict is None else await session.get(Lease, verdict.result_lease_id)
        )
    if verdict is None or result_lease is None:
        return
    document = await store.objects.get(result_lease.object_key or "")
    lengths = sample_lengths(document)
    async with store.write() as session:
        order = await lock_order(session, verdict.order_id)
        unit = await session.get(Unit, verdict.unit_id, with_for_update={"key_share": True})
        verdict = await session.get(Verdict, verdict_id)
        if order is None or unit is None or verdict is None:
            return
        lone = await is_alone(session, result_lease, verdict)
        if order.status != OrderStatus.IN_PROGRESS or not lone or unit.state != UnitState.CLOSED:
            return
        review = await _review_of(session, result_lease.id)
        if review is not None and review.state == ReviewState.AUDITING:
            # A second opinion is under way, and decides.
            return
        places = [place for place, letter in enumerate(unit.outcomes) if letter == VERIFIED]
        await revoke(session, order, unit, places, lengths, UNDECIDED)
        verdict.withdrawn_at_ms = now_ms
        units.judge_anew(unit, now_ms)
        if review is not None and review.state != ReviewState.CLOSED:
            reviews.withdraw(review, now_ms)
            session.add(review)
        session.add_all((order, unit, verdict))
        log.info("audited again", unit_id=unit.id, samples=len(places))
    store.announce_news()


async def _review_of(session: AsyncSession, result_lease_id: str) -> Review | None:
    statement = (
        select(Review)
        .where(col(Review.result_lease_id) == result_lease_id)
        .order_by(col(Review.id).desc())
        .limit(1)
    )
    return (await session.exec(statement)).first()


async def _look(session: AsyncSession, review_id: str) -> Held | None:
    """Return a review with its result's lease, its unit and its order."""
    review = await session.get(Review, review_id)
    if review is None:
        return None
    lease = await session.get(Lease, review.result_lease_id)
    unit = await session.get(Unit, review.unit_id)
    order = await session.get(Order, review.order_id)
    if lease is None or unit is None or order is None:
        raise LookupError(f"review {review_id} has no result, no unit or no order")
    return Held(lease, unit, order, review)


async def _hold(session: AsyncSession, review_id: str) -> Held | None:
    """Return the same, locked."""
    seen = await session.get(Review, review_id)
    if seen is None:
        return None
    await lock_order(session, seen.order_id)
    await session.refresh(seen)
    return await _look(session, review_id)
