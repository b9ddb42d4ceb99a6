"""Convicting miners: by the evidence over all of their tokens, and by more than one owner's word.

Every owner of validators has a trail of its own against a miner, one by measured profiles and one
by the assumed profile, for stacks that were not measured of a model that was. Each is evidence by
itself, since who audits what does not depend on what is found. Where two owners live it takes two
of them, so that none convicts by marks that it made up.
"""

import json
import math
from collections.abc import Collection, Sequence

import structlog
from sqlmodel import col, delete, select
from sqlmodel.ext.asyncio.session import AsyncSession

from gateway.orders import life, units
from gateway.orders.counting import generate_again, revoke
from gateway.orders.judges import is_distrusted, living_owners
from gateway.orders.leases import Held, stop
from gateway.orders.policy import Policy
from gateway.orders.rows import is_undelivered, lock_order, units_of_convicted
from gateway.orders.samples import UNDECIDED, VERIFIED, VOID
from gateway.orders.stored_results import sample_lengths
from gateway.store.engine import Store
from gateway.store.tables import (
    Lease,
    LeaseKind,
    LeaseState,
    Node,
    Review,
    ReviewEnd,
    ReviewState,
    Trail,
    Unit,
    UnitState,
    Verdict,
)
from protocol.messages import SampleVerdict
from scoring import evidence
from scoring.profile import Profile
from scoring.published import assumed, is_vouched_for
from scoring.sample_rule import Ground, convicts, trail_after, unstratified

# So many owners of validators must have found a miner out, where so many live.
OWNERS = 2

log = structlog.get_logger("gateway.convicting")


async def add_evidence(
    session: AsyncSession,
    held: Held,
    audited: Lease,
    profile: Profile,
    samples: Sequence[SampleVerdict],
    policy: Policy,
    now_ms: int,
) -> None:
    """Add what one owner's validator found of a result to its trail; convict where that suffices.

    The caller holds the lock of the order and of both nodes. Only first opinions on first tries
    count, each once: the draw gives the same tokens again, and what is generated or judged again
    was often chosen for its margins.

    Args:
        held: the audit lease.
        audited: the lease of the result that it is on.
        profile: what the samples were judged by. Where it is too small, the assumed one stands in,
            for models of a measured family alone: of any other the weights are a customer's choice.
    """
    vouched_for = profile.convicts or is_vouched_for(held.order.model)
    if held.review is not None or held.unit.parent_id is not None or not vouched_for:
        return
    ground = Ground.MEASURED if profile.convicts else Ground.ASSUMED
    miner, owner = audited.hotkey, held.lease.coldkey
    node = await session.get(Node, miner)
    # Looked at again, now that its nodes are locked.
    if node is None or await is_distrusted(session, owner, now_ms):
        return
    before = await _judged_before(session, held.lease, audited)
    row = await session.get(Trail, (miner, owner, ground))
    trail = evidence.Trail.empty() if row is None else _read(row)
    for place, sample in enumerate(samples):
        if sample.outcome != "inconclusive" and place not in before:
            trail = _after(trail, ground, profile, sample)
    await session.merge(_written(miner, owner, ground, trail))
    await session.flush()
    if not convicts(trail, ground) or node.convicted_at_ms is not None:
        return
    if await _is_found_out(session, node, policy, now_ms):
        node.convicted_at_ms = now_ms
        session.add(node)
        log.warning("miner convicted", miner=miner)


def _after(
    trail: evidence.Trail, ground: Ground, profile: Profile, sample: SampleVerdict
) -> evidence.Trail:
    if ground == Ground.MEASURED:
        return trail_after(trail, profile, sample.tokens, sample.marks)
    return trail_after(trail, assumed(), sample.tokens, unstratified(sample.marks))


async def miners_with_trails(session: AsyncSession, owners: Collection[str]) -> Sequence[str]:
    """Return the miners against whom validators of some owners found evidence."""
    if not owners:
        return []
    return (await session.exec(select(Trail.miner).where(col(Trail.owner).in_(owners)))).all()


async def forget(
    session: AsyncSession,
    owners: Collection[str],
    miners: Collection[str],
    policy: Policy,
    now_ms: int,
) -> None:
    """Drop the evidence of owners that are not believed, and whom they had a part in convicting.

    What was generated again meanwhile stays so.

    Args:
        miners: all against whom there is such evidence, locked.
    """
    if not owners:
        return
    await session.exec(delete(Trail).where(col(Trail.owner).in_(owners)))
    for hotkey in miners:
        node = await session.get(Node, hotkey)
        if node is None or node.convicted_at_ms is None:
            continue
        if not await _is_found_out(session, node, policy, now_ms):
            node.convicted_at_ms = None
            session.add(node)
            log.warning("conviction taken back", miner=hotkey)


async def redo_undelivered(store: Store, now_ms: int) -> None:
    """Have everything generated again that convicted miners made and nobody has been given yet.

    What they are still at, or wait to have audited, is given to others at once.
    """
    of_convicted = col(Node.convicted_at_ms).is_not(None)
    working = (
        select(Lease.id)
        .join(Node, col(Node.hotkey) == col(Lease.hotkey))
        .where(
            of_convicted,
            col(Lease.kind) == LeaseKind.GENERATE,
            col(Lease.state) == LeaseState.LIVE,
        )
    )
    unjudged = (
        select(Unit.id)
        .join(Lease, col(Lease.id) == col(Unit.result_lease_id))
        .join(Node, col(Node.hotkey) == col(Lease.hotkey))
        .where(of_convicted, col(Unit.state) == UnitState.SUBMITTED)
    )
    async with store.glance() as session:
        if (await session.exec(select(Node.hotkey).where(of_convicted).limit(1))).first() is None:
            return
    async with store.read() as session:
        lease_ids = (await session.exec(working)).all()
        unjudged_ids = (await session.exec(unjudged)).all()
        unit_ids = (await session.exec(units_of_convicted())).all()
    for lease_id in lease_ids:
        await stop(store, lease_id, now_ms)
    for unit_id in unjudged_ids:
        await _leave_unjudged(store, unit_id, now_ms)
    for unit_id in unit_ids:
        await _redo(store, unit_id, now_ms)


async def _leave_unjudged(store: Store, unit_id: str, now_ms: int) -> None:
    async with store.write() as session:
        seen = await session.get(Unit, unit_id)
        order = None if seen is None else await lock_order(session, seen.order_id)
        unit = await session.get(
            Unit, unit_id, with_for_update={"key_share": True}, populate_existing=True
        )
        if order is None or unit is None or unit.state != UnitState.SUBMITTED:
            return
        lease = await session.get(Lease, unit.result_lease_id)
        if lease is not None and set(unit.outcomes) == {UNDECIDED}:
            units.fail_try(order, unit, lease.coldkey, now_ms)
            session.add_all((order, unit))
            await life.settle(session, order, now_ms)
    store.announce_news()


async def _judged_before(session: AsyncSession, lease: Lease, audited: Lease) -> set[int]:
    """Return the places of a result's samples that an audit lease's owner judged earlier."""
    statement = (
        select(Verdict.outcomes)
        .join(Lease, col(Lease.id) == col(Verdict.id))
        .where(
            col(Verdict.result_lease_id) == audited.id,
            col(Verdict.id) != lease.id,
            col(Lease.coldkey) == lease.coldkey,
        )
    )
    earlier = (await session.exec(statement)).all()
    return {
        place
        for outcomes in earlier
        for place, letter in enumerate(outcomes)
        if letter != UNDECIDED
    }


async def _is_found_out(session: AsyncSession, node: Node, policy: Policy, now_ms: int) -> bool:
    """Say whether so many owners have found a miner out as it takes."""
    living = await living_owners(session, policy, now_ms)
    trails = await session.exec(select(Trail).where(col(Trail.miner) == node.hotkey))
    found_by = {row.owner for row in trails.all() if convicts(_read(row), Ground(row.ground))}
    return len(found_by) >= min(OWNERS, max(1, len(living)))


async def _redo(store: Store, unit_id: str, now_ms: int) -> None:
    async with store.read() as session:
        seen = await session.get(Unit, unit_id)
        lease = None if seen is None else await session.get(Lease, seen.result_lease_id)
    if seen is None or lease is None:
        return
    document = await store.objects.get(lease.object_key or "")
    lengths = sample_lengths(document)
    async with store.write() as session:
        order = await lock_order(session, seen.order_id)
        unit = await session.get(Unit, unit_id, with_for_update={"key_share": True})
        if order is None or unit is None or not is_undelivered(order):
            return
        places = [place for place, letter in enumerate(unit.outcomes) if letter == VERIFIED]
        if unit.state != UnitState.CLOSED or not places:
            return
        await revoke(session, order, unit, places, lengths, VOID)
        order.samples_void += len(places)
        generate_again(session, order, unit, places, lease.coldkey, now_ms)
        await _end_review(session, lease.id, now_ms)
        session.add_all((order, unit))
        await life.settle(session, order, now_ms)
    log.info("generated again", unit_id=unit_id, samples=len(places))
    store.announce_news()


async def _end_review(session: AsyncSession, result_lease_id: str, now_ms: int) -> None:
    """Withdraw a review that still waits: there is nothing left to have an opinion on."""
    waiting = (ReviewState.AWAITED, ReviewState.OPEN)
    statement = select(Review).where(
        col(Review.result_lease_id) == result_lease_id, col(Review.state).in_(waiting)
    )
    for review in (await session.exec(statement)).all():
        review.state, review.ending = ReviewState.CLOSED, ReviewEnd.WITHDRAWN
        review.closed_at_ms = now_ms
        session.add(review)


def _read(row: Trail) -> evidence.Trail:
    sums = (-math.inf if value is None else value for value in json.loads(row.log_sums_json))
    return evidence.Trail(row.tokens, tuple(sums), row.peak)


def _written(miner: str, owner: str, ground: Ground, trail: evidence.Trail) -> Trail:
    sums = [value if value > -math.inf else None for value in trail.log_sums]
    return Trail(
        miner=miner,
        owner=owner,
        ground=ground,
        tokens=trail.tokens,
        log_sums_json=json.dumps(sums),
        peak=trail.peak,
    )
