"""Second opinions: which judged units get one, and what becomes of a unit on which they differ.

A unit with void samples always goes before a validator of another owner, where one lives; of the
others a share does, drawn by a block of the chain that comes after the judgement. Where the
opinions differ a third decides. A void counts against its miner once its unit's review is closed.
The caller holds the order's lock.
"""

from collections.abc import Sequence

from sqlmodel.ext.asyncio.session import AsyncSession

from gateway.orders.convicting import forget
from gateway.orders.counting import generate_again, remember, revoke, standing_verdicts
from gateway.orders.judges import distrust, fresh_judges, is_distrusted
from gateway.orders.leases import Held
from gateway.orders.nodes import live_nodes
from gateway.orders.policy import Policy
from gateway.orders.samples import VERIFIED, VOID
from gateway.store.tables import (
    Ending,
    Lease,
    NodeRole,
    Order,
    OrderStatus,
    Review,
    ReviewEnd,
    ReviewState,
    Verdict,
)
from scoring.opinions import is_tied, judged_by, overruled, standing


async def begin(
    session: AsyncSession,
    held: Held,
    result_lease: Lease,
    lengths: Sequence[int],
    policy: Policy,
    now_ms: int,
) -> None:
    """Let a unit that is judged wait for what the chain draws, or for a second opinion at once.

    At once where samples are void, and where several were needed to judge it and differ.
    """
    judges = await _judges_left(session, held.order, result_lease, policy, now_ms)
    void = VOID in held.unit.outcomes
    opinions = await _opinions(session, result_lease)
    columns = zip(held.unit.outcomes, *opinions.values(), strict=True)
    disputed = any(letter == VERIFIED and VOID in found for letter, *found in columns)
    review = Review(
        order_id=held.order.id,
        unit_id=held.unit.id,
        result_lease_id=result_lease.id,
        state=ReviewState.OPEN if void or disputed else ReviewState.AWAITED,
        created_at_ms=now_ms,
        offered_at_ms=now_ms,
    )
    session.add(review)
    if not judges and disputed:
        reviewed = Held(held.lease, held.unit, held.order, review)
        await close(session, reviewed, result_lease, ReviewEnd.ALONE, lengths, policy, now_ms)
    elif not judges:
        _close(review, ReviewEnd.ALONE, now_ms)
        await remember(session, result_lease.hotkey, VOID * held.unit.outcomes.count(VOID))


async def weigh(
    session: AsyncSession,
    held: Held,
    result_lease: Lease,
    lengths: Sequence[int],
    policy: Policy,
    now_ms: int,
) -> None:
    """Take one more opinion into account: ask for another, or close the review.

    Args:
        lengths: of the result's samples, in ids.
    """
    review = held.review
    if review is None or review.state == ReviewState.CLOSED:
        return
    await session.flush()
    opinions = await _believed(session, result_lease, now_ms)
    columns = list(zip(*opinions.values(), strict=True))
    unsettled = any(is_tied(column) or judged_by(column) < 2 for column in columns)
    if unsettled and await _judges_left(session, held.order, result_lease, policy, now_ms):
        offer(review, now_ms)
    else:
        await close(session, held, result_lease, ReviewEnd.ALONE, lengths, policy, now_ms)


async def close(
    session: AsyncSession,
    held: Held,
    result_lease: Lease,
    ending: ReviewEnd,
    lengths: Sequence[int],
    policy: Policy,
    now_ms: int,
) -> None:
    """End a review by the opinions that there are; its order may be settled then.

    A sample that most found void is generated again, and stands against its miner. One on which a
    tie remains is generated again too, and nobody is blamed. Owners that most others contradict are
    believed nothing for a while.

    Args:
        ending: how it ends where there is but one opinion.
    """
    review, order, unit = held.review, held.order, held.unit
    if review is None:
        raise LookupError(f"unit {unit.id} has no review")
    opinions = await _believed(session, result_lease, now_ms)
    columns = list(zip(*opinions.values(), strict=True))
    found = [standing(column) for column in columns]
    tied = [is_tied(column) for column in columns]
    doubtful = [
        place
        for place, letter in enumerate(unit.outcomes)
        if letter == VERIFIED and (tied[place] or found[place] == VOID)
    ]
    if doubtful and _goes_on(order):
        await revoke(session, order, unit, doubtful, lengths, VOID)
        order.samples_void += len(doubtful)
        generate_again(session, order, unit, doubtful, result_lease.coldkey, now_ms)
    wrong = overruled(opinions)
    for owner in sorted(wrong):
        await distrust(session, owner, policy, now_ms)
        await forget(session, owner)
    await remember(session, result_lease.hotkey, VOID * found.count(VOID))
    if wrong:
        ending = ReviewEnd.OVERRULED
    elif any(tied):
        ending = ReviewEnd.UNRESOLVED
    elif any(judged_by(column) > 1 for column in columns):
        ending = ReviewEnd.AGREED
    _close(review, ending, now_ms)
    held.save(session)


async def is_alone(session: AsyncSession, result_lease: Lease, verdict: Verdict) -> bool:
    """Say whether nobody else could judge any sample of the result that ``verdict`` is on."""
    lease = await session.get(Lease, verdict.id)
    opinions = await _opinions(session, result_lease)
    return not any(
        VERIFIED in letters or VOID in letters
        for owner, letters in opinions.items()
        if lease is None or owner != lease.coldkey
    )


async def _believed(session: AsyncSession, result_lease: Lease, now_ms: int) -> dict[str, str]:
    """Return the opinions on a result, without distrusted owners' where there are others."""
    opinions = await _opinions(session, result_lease)
    believed = {
        owner: letters
        for owner, letters in opinions.items()
        if not await is_distrusted(session, owner, now_ms)
    }
    return believed or opinions


async def _opinions(session: AsyncSession, result_lease: Lease) -> dict[str, str]:
    """Return the letters that each owner gave the samples of a result, its latest word on each."""
    opinions: dict[str, str] = {}
    for verdict in await standing_verdicts(session, result_lease.id):
        lease = await session.get(Lease, verdict.id)
        if lease is None:
            raise LookupError(f"verdict {verdict.id} has no lease")
        before = opinions.get(lease.coldkey, verdict.outcomes)
        opinions[lease.coldkey] = "".join(
            new if new in (VERIFIED, VOID) else old
            for old, new in zip(before, verdict.outcomes, strict=True)
        )
    return opinions


def offer(review: Review, now_ms: int) -> None:
    """Let a review wait for a validator."""
    review.state = ReviewState.OPEN
    review.offered_at_ms = now_ms


def pass_over(review: Review, now_ms: int) -> None:
    """End a review that was not drawn."""
    _close(review, ReviewEnd.PASSED_OVER, now_ms)


def withdraw(review: Review, now_ms: int) -> None:
    """End a review whose first verdict is believed no longer."""
    _close(review, ReviewEnd.WITHDRAWN, now_ms)


async def _judges_left(
    session: AsyncSession, order: Order, result_lease: Lease, policy: Policy, now_ms: int
) -> bool:
    """Say whether a validator lives whose owner has not had this result."""
    await session.flush()
    validators = await live_nodes(session, NodeRole.VALIDATOR, policy, now_ms)
    return bool(await fresh_judges(session, order, result_lease, validators))


def _goes_on(order: Order) -> bool:
    """Say whether what an order delivers can still change."""
    if order.status == OrderStatus.CANCELLING:
        return order.ending != Ending.CANCELLED
    return order.status == OrderStatus.IN_PROGRESS


def _close(review: Review, ending: ReviewEnd, now_ms: int) -> None:
    review.state = ReviewState.CLOSED
    review.ending = ending
    review.closed_at_ms = now_ms
