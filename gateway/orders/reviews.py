"""Second opinions: which judged units get one, and what becomes of a unit on which they differ.

A unit with void samples always goes before a validator of another owner, where one lives; of the
others a share does, drawn by a block of the chain that comes after the judgement. Where the
opinions differ a third decides, be it in what is void or in the margins that they saw. A void
counts against its miner once its unit's review is closed. The caller holds the order's lock, and
carries out the aftermath.
"""

from collections.abc import Mapping, Sequence

from sqlmodel.ext.asyncio.session import AsyncSession

from gateway.orders.aftermath import Aftermath
from gateway.orders.counting import generate_again, revoke
from gateway.orders.judges import asked_owners, judges_left, living_owners
from gateway.orders.leases import Held
from gateway.orders.opinions import Shown, believed_opinions, opinions_on
from gateway.orders.policy import Policy
from gateway.orders.rows import is_undelivered
from gateway.orders.samples import VERIFIED, VOID
from gateway.store.tables import (
    Lease,
    Review,
    ReviewEnd,
    ReviewState,
)
from scoring.opinions import Opinion, at_odds, is_tied, judged_by, overruled, standing
from scoring.published import assumed
from scoring.reputation import LONE_VOID


async def begin(
    session: AsyncSession,
    held: Held,
    result_lease: Lease,
    lengths: Sequence[int],
    shown: Shown,
    policy: Policy,
    now_ms: int,
) -> Aftermath:
    """Let a unit that is judged wait for what the chain draws, or for a second opinion at once.

    At once where samples are void, and where several were needed to judge it and differ.
    """
    left = await judges_left(session, held.order, result_lease, policy, now_ms)
    void = VOID in held.unit.outcomes
    opinions = await opinions_on(session, result_lease, shown)
    columns = zip(held.unit.outcomes, *_letters(opinions).values(), strict=True)
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
    if left:
        return Aftermath()
    reviewed = Held(held.lease, held.unit, held.order, review)
    alone = ReviewEnd.ALONE
    return await close(session, reviewed, result_lease, alone, lengths, shown, policy, now_ms)


async def weigh(
    session: AsyncSession,
    held: Held,
    result_lease: Lease,
    lengths: Sequence[int],
    shown: Shown,
    policy: Policy,
    now_ms: int,
) -> Aftermath:
    """Take one more opinion into account: ask for another, or close the review.

    Args:
        lengths: of the result's samples, in ids.
        shown: the marks of the verdicts on it.
    """
    review = held.review
    if review is None or review.state == ReviewState.CLOSED:
        return Aftermath()
    await session.flush()
    opinions = await believed_opinions(session, result_lease, shown, now_ms)
    columns = list(zip(*_letters(opinions).values(), strict=True))
    unsettled = any(is_tied(column) or judged_by(column) < 2 for column in columns)
    unsettled = unsettled or at_odds(opinions, assumed())[1]
    if unsettled and await judges_left(session, held.order, result_lease, policy, now_ms):
        offer(review, now_ms)
        return Aftermath()
    alone = ReviewEnd.ALONE
    return await close(session, held, result_lease, alone, lengths, shown, policy, now_ms)


async def close(
    session: AsyncSession,
    held: Held,
    result_lease: Lease,
    ending: ReviewEnd,
    lengths: Sequence[int],
    shown: Shown,
    policy: Policy,
    now_ms: int,
) -> Aftermath:
    """End a review by the opinions that there are; its order may be settled then.

    A sample that most found void is generated again. One on which a tie remains is generated again
    too, and nobody is blamed.

    Args:
        ending: how it ends where there is but one opinion.

    Returns:
        What follows for nodes: owners that most others contradict, by letters or by marks, are
        believed nothing for a while, and voids that nobody stands alone with count.
    """
    review, order, unit = held.review, held.order, held.unit
    if review is None:
        raise LookupError(f"unit {unit.id} has no review")
    opinions = await believed_opinions(session, result_lease, shown, now_ms)
    columns = list(zip(*_letters(opinions).values(), strict=True))
    found = [standing(column) for column in columns]
    tied = [is_tied(column) for column in columns]
    doubtful = [
        place
        for place, letter in enumerate(unit.outcomes)
        if letter == VERIFIED and (tied[place] or found[place] == VOID)
    ]
    if doubtful and is_undelivered(order):
        await revoke(session, order, unit, doubtful, lengths, VOID)
        order.samples_void += len(doubtful)
        generate_again(session, order, unit, doubtful, result_lease.coldkey, now_ms)
    wrong, differ = at_odds(opinions, assumed())
    wrong |= overruled(_letters(opinions))
    letters = await _voids(session, columns, result_lease, ending, policy, now_ms)
    if wrong:
        ending = ReviewEnd.OVERRULED
    elif any(tied) or differ:
        ending = ReviewEnd.UNRESOLVED
    elif any(judged_by(column) > 1 for column in columns):
        ending = ReviewEnd.AGREED
    _close(review, ending, now_ms)
    return Aftermath(letters, frozenset(wrong))


def _letters(opinions: Mapping[str, Opinion]) -> dict[str, str]:
    return {owner: opinion.letters for owner, opinion in opinions.items()}


async def _voids(
    session: AsyncSession,
    columns: Sequence[Sequence[str]],
    result_lease: Lease,
    ending: ReviewEnd,
    policy: Policy,
    now_ms: int,
) -> str:
    """Return the letters of the void samples that stand against their miner.

    What one owner alone found void does where no other is there to ask, and never because another
    did not answer in time: that one may be a friend's.
    """
    void = [column for column in columns if standing(column) == VOID]
    lone = [column for column in void if judged_by(column) < 2]
    confirmed = VOID * (len(void) - len(lone))
    if not lone or ending != ReviewEnd.ALONE:
        return confirmed
    owners = await living_owners(session, policy, now_ms)
    known = {*await asked_owners(session, result_lease), result_lease.coldkey}
    return confirmed + ("" if owners - known else LONE_VOID * len(lone))


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


def _close(review: Review, ending: ReviewEnd, now_ms: int) -> None:
    review.state = ReviewState.CLOSED
    review.ending = ending
    review.closed_at_ms = now_ms
