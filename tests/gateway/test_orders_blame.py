"""Who is blamed for what: marks left out, convictions by liars, voids nobody confirmed."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest
from second_opinions import (
    BLOCK_MS,
    attend,
    audit_honestly,
    cheat,
    ending,
    is_distrusted,
    nodes,
    record,
)
from sqlalchemy import text
from sqlmodel import col

from gateway.orders import background, convicting, life
from gateway.orders.policy import Policy
from gateway.orders.rows import lock_node
from gateway.store.tables import Lease, LeaseState, Node, Trail, Unit, UnitState
from protocol.chain.local import LocalChain
from scoring.profile import BINS
from tests.support.profiles import ASSUMED, made_profile

NONE = Policy(unit_samples=4)
ALWAYS = Policy(unit_samples=4, second_opinions=1.0)
HARDLY_EVER = Policy(unit_samples=4, second_opinions=1e-9)
# A margin of half a logit to one, which no sample is void by.
HALF = (0, 0, 10)
SMALL = (0, 0, 4)


@pytest.fixture
def chain(world, tmp_path):
    return LocalChain(tmp_path / "chain.sqlite", lambda: world.now / 1000)


@pytest.fixture
def profile(monkeypatch: pytest.MonkeyPatch):
    """A profile for the fake stacks of these tests, and what is assumed."""
    measured = made_profile([90_000], [np.eye(BINS)[0]])
    monkeypatch.setattr("scoring.published.published", lambda: (measured, ASSUMED))
    return measured


async def judge(world, validator, marks, *, abstained: bool = False) -> bool:
    """Verify the next result with these marks to each sample; say whether there was one."""
    lease = await world.lease_audit(validator)
    if lease is None:
        return False
    posted = world.verdicts(validator, lease, ["verified"] * len(lease.work.samples))
    fields = {"mismatches": len(marks), "marks": marks, "abstained": abstained and bool(marks)}
    samples = [sample.model_copy(update=fields) for sample in posted.samples]
    document = posted.model_copy(update={"samples": samples})
    await world.judge(validator, lease, world.signed_again(validator, lease, document))
    return True


async def void(world, validator) -> None:
    """Find every sample of the next result void, under a profile that is small."""
    lease = await world.lease_audit(validator)
    posted = world.verdicts(validator, lease, ["void"] * len(lease.work.samples))
    samples = [sample.model_copy(update={"abstained": True}) for sample in posted.samples]
    document = posted.model_copy(update={"samples": samples})
    await world.judge(validator, lease, world.signed_again(validator, lease, document))


async def is_convicted(world, miner) -> bool:
    (row,) = await world.rows(Node, col(Node.hotkey) == miner.hotkey)
    return row.convicted_at_ms is not None


async def drawn(world, chain) -> None:
    await attend(world, chain)
    await attend(world, chain, blocks=1)


# Marks


async def test_a_validator_that_leaves_out_marks_is_overruled(world, chain):
    world.policy = replace(ALWAYS, unit_samples=64)
    await world.place([[1 + place % 90, place // 90] for place in range(64)])
    (cheating,), (blind, second, third) = await nodes(world, 1, 3)
    await world.generate(cheating)
    # All of them verify every sample; two see what each of them shows, and one nothing.
    assert await judge(world, blind, [])
    await drawn(world, chain)
    assert await judge(world, second, [HALF])
    assert await ending(world) == [None]
    assert await judge(world, third, [HALF])
    assert await ending(world) == ["overruled"]
    assert [await is_distrusted(world, one) for one in (blind, second, third)] == [
        True,
        False,
        False,
    ]


async def test_two_that_saw_different_marks_blame_nobody(world, chain):
    world.policy = replace(ALWAYS, unit_samples=64)
    order = await world.place([[1 + place % 90, place // 90] for place in range(64)])
    (cheating,), (first, second) = await nodes(world, 1, 2)
    await world.generate(cheating)
    await judge(world, first, [])
    await drawn(world, chain)
    await judge(world, second, [HALF])
    assert await ending(world) == ["unresolved"]
    assert not await is_distrusted(world, first) and not await is_distrusted(world, second)
    assert (await world.order(order)).status == "finalizing"


async def test_margins_that_rounding_moves_are_no_difference(world, chain):
    world.policy = replace(ALWAYS, unit_samples=64)
    await world.place([[1 + place % 90, place // 90] for place in range(64)])
    (miner,), (first, second) = await nodes(world, 1, 2)
    await world.generate(miner)
    await judge(world, first, [SMALL])
    await drawn(world, chain)
    await judge(world, second, [(0, 0, 5)])
    assert await ending(world) == ["agreed"]


# Convictions


async def test_a_conviction_goes_with_the_owner_that_had_a_part_in_it(world, chain, profile):
    await world.place([[number] for number in range(1, 41)])
    (miner, honest), (liar, second, third) = await nodes(world, 2, 3)
    for validator in (liar, second):
        await world.generate(miner)
        await judge(world, validator, [SMALL], abstained=True)
    assert await is_convicted(world, miner)
    world.policy = HARDLY_EVER
    await world.generate(honest)
    await void(world, liar)
    await audit_honestly(world, second)
    await audit_honestly(world, third)
    assert await is_distrusted(world, liar)
    assert not await is_convicted(world, miner)
    # Another owner's word, and it is again; what the liar found void, made anew, is no evidence.
    world.policy = NONE
    for _ in range(2):
        await world.generate(miner)
        await judge(world, third, [SMALL], abstained=True)
    assert await is_convicted(world, miner)


async def convict(world, miner, validator) -> None:
    await world.generate(miner)
    await judge(world, validator, [SMALL], abstained=True)
    assert await is_convicted(world, miner)


async def test_a_convicted_miners_work_is_given_to_others_at_once(world, profile):
    await world.place([[number] for number in range(1, 17)])
    (miner, honest), (only,) = await nodes(world, 2, 1)
    await world.prove(honest)
    held = await world.lease(miner)
    await convict(world, miner, only)
    # What it had handed in and what it was at, both of it nobody's now.
    late = await world.node("miner")
    waiting = await world.lease(late)
    await world.post(late, waiting)
    async with world.store.write() as session:
        row = await session.get(Node, late.hotkey)
        row.convicted_at_ms = world.now
        session.add(row)
    await convicting.redo_undelivered(world.store, world.now)
    (lease,) = await world.rows(Lease, col(Lease.id) == held.lease_id)
    assert lease.state == LeaseState.STOPPED
    (unit,) = await world.rows(Unit, col(Unit.id) == waiting.work.unit_id)
    assert (unit.state, unit.tries) == (UnitState.OPEN, 1)
    assert await world.lease_audit(only) is None
    taken = {(await world.lease(honest)).work.unit_id for _ in range(3)}
    assert {held.work.unit_id, waiting.work.unit_id} <= taken


@pytest.mark.parametrize("way", ["cancelled", "expired"])
async def test_no_order_delivers_what_a_convicted_miner_made(world, profile, way):
    order = await world.place([[number] for number in range(1, 9)])
    (miner, honest), (only,) = await nodes(world, 2, 1)
    await world.generate(honest)
    await judge(world, only, [])
    await convict(world, miner, only)
    if way == "cancelled":
        await life.cancel(world.store, order.account_id, order.id, world.now)
    else:
        world.now = order.expires_at_ms

    async def tick() -> None:
        # In the order of the background: an order ends before convictions are looked at.
        await background.end_orders(world.store, world.policy, lambda: world.now / 1000)
        await convicting.redo_undelivered(world.store, world.now)

    await tick()
    await tick()
    order = await world.order(order)
    assert order.ending == way
    assert (order.samples_verified, order.samples_missing) == (4, 4)


# Voids that nobody confirmed


async def test_a_void_that_a_second_validator_left_unanswered_counts_for_nothing(world, chain):
    world.policy = HARDLY_EVER
    await world.place([[1], [2], [3], [4]])
    (miner,), (hostile, friend) = await nodes(world, 1, 2)
    await world.generate(miner)
    await world.audit(hostile, "void")
    started = world.now
    while await ending(world) == [None]:
        await world.announce(friend)
        await attend(world, chain, blocks=5)
    assert await ending(world) == ["late"]
    assert world.now - started <= world.policy.review_ms + 10 * BLOCK_MS
    assert await record(world, miner) == ""


async def test_a_void_counts_for_nothing_while_another_owner_may_come_back(world, chain):
    world.policy = HARDLY_EVER
    await world.place([[1], [2], [3], [4]])
    (miner,), (hostile, _) = await nodes(world, 1, 2)
    await world.generate(miner)
    await world.audit(hostile, "void")
    world.now += world.policy.live_ms + BLOCK_MS
    await attend(world, chain)
    assert await ending(world) == ["alone"]
    assert await record(world, miner) == ""


async def test_a_void_by_the_only_owner_there_is_counts_with_reserve(world, chain):
    world.policy = HARDLY_EVER
    await world.place([[1], [2], [3], [4]])
    (miner,), (only,) = await nodes(world, 1, 1)
    await world.generate(miner)
    await world.audit(only, ["void", "void", "verified", "verified"])
    assert await ending(world) == ["alone"]
    assert await record(world, miner) == "vvoo"


# Locks


async def waiting_for_a_lock(world) -> None:
    statement = text("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
    async with asyncio.timeout(30):
        while True:
            async with world.store.read() as session:
                if (await session.exec(statement)).scalar():
                    return
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("empty_database", ["postgresql"], indirect=True)
async def test_evidence_and_its_end_never_wait_for_each_other_in_a_circle(world, chain, profile):
    """One transaction adds to a liar's trail, one that finds the liar out drops its trails."""
    world.policy = NONE
    await world.place([[number] for number in range(1, 41)])
    (miner,), (liar, second, third) = await nodes(world, 1, 3)
    await world.generate(miner)
    await judge(world, liar, [])
    world.policy = ALWAYS
    await cheat(world, miner)
    await judge(world, liar, [])
    await drawn(world, chain)
    await void(world, second)
    async with world.store.write() as session:
        # As in adding evidence: the miner first, then its trail.
        await lock_node(session, miner.hotkey)
        closing = asyncio.create_task(void(world, third))
        await waiting_for_a_lock(world)
        (row,) = await world.rows(Trail, col(Trail.owner) == liar.coldkey)
        row.tokens += 1
        await session.merge(row)
        await session.flush()
    await closing
    assert await is_distrusted(world, liar)
    assert await world.rows(Trail, col(Trail.owner) == liar.coldkey) == []
