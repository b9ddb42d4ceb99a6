"""Second opinions: drawn by the chain, given by another owner, settled by a third."""

from dataclasses import replace

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
from sqlmodel import col

from gateway.errors import GatewayError
from gateway.orders import background, dispatch
from gateway.orders.policy import Policy
from gateway.store.tables import Lease, LeaseState, Review, Verdict
from protocol.chain.local import LocalChain

PROMPTS = [[1, 2], [3], [5, 6], [7]]
ALWAYS = Policy(unit_samples=4, second_opinions=1.0)
HARDLY_EVER = Policy(unit_samples=4, second_opinions=1e-9)


@pytest.fixture
def world(world):
    world.policy = ALWAYS
    return world


@pytest.fixture
def chain(world, tmp_path):
    return LocalChain(tmp_path / "chain.sqlite", lambda: world.now / 1000)


async def test_a_single_validator_is_recorded_as_alone(world, chain):
    order = await world.place(PROMPTS)
    (miner,), (only,) = await nodes(world, 1, 1)
    # Another hotkey of the same owner is no second validator.
    await world.node("validator", owner=only.coldkey)
    await world.generate(miner)
    await world.audit(only)
    assert await ending(world) == ["alone"]
    assert (await world.order(order)).status == "finalizing"


async def test_a_drawn_unit_waits_for_another_owner(world, chain):
    order = await world.place(PROMPTS)
    (miner,), (first, second) = await nodes(world, 1, 2)
    await world.generate(miner)
    await world.audit(first)
    await attend(world, chain)
    (review,) = await world.rows(Review)
    # The block that decides was not there when the first verdict was.
    assert review.block == (await chain.head()).block + 1
    assert await world.lease_audit(second) is None
    await attend(world, chain, blocks=1)
    assert (await world.order(order)).status == "in_progress"
    (row,) = (await dispatch.demand(world.store, world.policy, world.now)).demands
    assert (row.waiting_samples, row.waiting_audits) == (0, 4)
    assert await world.lease_audit(first) is None
    assert await world.lease_audit(await world.node("validator", owner=first.coldkey)) is None
    assert await world.lease_audit(await world.node("validator", owner=miner.coldkey)) is None
    audit = await world.audit(second)
    assert audit.result.root and audit.work.unit_id == review.unit_id
    assert await ending(world) == ["agreed"]
    order = await world.order(order)
    assert (order.status, order.samples_verified) == ("finalizing", 4)
    verdicts = await world.rows(Verdict)
    assert sorted(verdict.newly_verified for verdict in verdicts) == [0, 4]


async def test_what_is_not_drawn_goes_on_after_a_block(world, chain):
    world.policy = HARDLY_EVER
    order = await world.place(PROMPTS)
    (miner,), (first, _) = await nodes(world, 1, 2)
    await world.generate(miner)
    await world.audit(first)
    await attend(world, chain)
    assert (await world.order(order)).status == "in_progress"
    await attend(world, chain, blocks=1)
    assert await ending(world) == ["passed_over"]
    (review,) = await world.rows(Review)
    assert review.block_hash == await chain.block_hash(review.block)
    assert (await world.order(order)).status == "finalizing"


async def test_void_samples_always_get_a_second_opinion(world, chain):
    world.policy = HARDLY_EVER
    await world.place(PROMPTS)
    (miner, other), (first, second) = await nodes(world, 2, 2)
    await cheat(world, miner)
    await world.audit(first, "void")
    assert await record(world, miner) == ""
    # Generation goes on meanwhile.
    assert (await world.lease(other)).attempt == 2
    await world.audit(second, "void")
    assert await ending(world) == ["agreed"]
    assert await record(world, miner) == "xxxx"


async def test_a_validator_that_passes_all_is_overruled(world, chain):
    order = await world.place([[place] for place in range(1, 9)])
    (cheating, honest), (lazy, second, third) = await nodes(world, 2, 3)
    # A unit of honest work that the lazy validator passes unseen, then one of nonsense.
    world.policy = HARDLY_EVER
    await world.generate(honest)
    await world.audit(lazy)
    await attend(world, chain)
    await attend(world, chain, blocks=1)
    world.policy = ALWAYS
    await cheat(world, cheating)
    await world.audit(lazy)
    assert (await world.order(order)).samples_verified == 8
    await attend(world, chain)
    await attend(world, chain, blocks=1)
    await audit_honestly(world, second)
    assert (await world.order(order)).status == "in_progress"
    assert await world.lease_audit(second) is None
    await audit_honestly(world, third)
    assert await ending(world) == ["passed_over", "overruled"]
    assert [await is_distrusted(world, node) for node in (lazy, second, third)] == [
        True,
        False,
        False,
    ]
    assert await record(world, cheating) == "vvvvxxxx"
    with pytest.raises(GatewayError) as error:
        await world.lease_audit(lazy)
    assert error.value.code == "validator_distrusted"
    twin = await world.node("validator", owner=lazy.coldkey)
    with pytest.raises(GatewayError, match="do not count"):
        await world.lease_audit(twin)
    # What it alone verified is audited again, by others.
    await attend(world, chain)
    assert (await world.order(order)).samples_verified == 0
    await world.generate(honest)
    while await audit_honestly(world, second) or await audit_honestly(world, third):
        await attend(world, chain)
        await attend(world, chain, blocks=1)
    order = await world.order(order)
    assert (order.status, order.samples_verified, order.lines_completed) == ("finalizing", 8, 8)
    rows = await world.rows(Verdict)
    assert sum(row.newly_verified for row in rows) == 8
    assert sum(row.tokens for row in rows) == order.tokens_verified
    # It is believed again after a while.
    world.now += world.policy.distrust_ms
    await world.announce(lazy)
    assert await world.lease_audit(lazy) is None


async def test_a_validator_that_fails_all_harms_no_miner(world, chain):
    await world.place(PROMPTS)
    (miner, _), (hostile, second, third) = await nodes(world, 2, 3)
    await world.generate(miner)
    await world.audit(hostile, "void")
    await audit_honestly(world, second)
    await audit_honestly(world, third)
    assert await ending(world) == ["overruled"]
    assert await is_distrusted(world, hostile)
    assert not await is_distrusted(world, second)
    assert "x" not in await record(world, miner)


async def test_a_tie_that_nobody_breaks_blames_nobody(world, chain):
    order = await world.place(PROMPTS)
    (miner, other), (first, second) = await nodes(world, 2, 2)
    await world.generate(miner)
    await world.audit(first)
    await attend(world, chain)
    await attend(world, chain, blocks=1)
    await world.audit(second, ["verified", "void", "verified", "inconclusive"])
    assert await ending(world) == ["unresolved"]
    assert not await is_distrusted(world, first) and not await is_distrusted(world, second)
    assert await record(world, miner) == "vvvv"
    order = await world.order(order)
    assert (order.samples_verified, order.samples_void, order.lines_completed) == (3, 1, 3)
    # The doubtful sample is made again, and nothing else.
    assert (await world.lease(other)).work.prompts == [[3]]


async def test_an_inconclusive_second_opinion_is_asked_of_a_third(world, chain):
    await world.place(PROMPTS)
    (miner,), (first, second, third) = await nodes(world, 1, 3)
    await world.generate(miner)
    await world.audit(first)
    await attend(world, chain)
    await attend(world, chain, blocks=1)
    await world.audit(second, "inconclusive")
    assert await ending(world) == [None]
    await world.audit(third)
    assert await ending(world) == ["agreed"]
    assert not await is_distrusted(world, second)


async def test_an_idle_second_validator_delays_a_delivery_for_a_bounded_time(world, chain):
    order = await world.place(PROMPTS)
    (miner,), (first, idle) = await nodes(world, 1, 2)
    await world.generate(miner)
    await world.audit(first)
    started = world.now
    while (await world.order(order)).status == "in_progress":
        await world.announce(idle)
        await attend(world, chain, blocks=5)
    assert world.now - started <= world.policy.review_ms + 10 * BLOCK_MS
    assert await ending(world) == ["late"]


async def test_a_second_validator_that_goes_leaves_the_first_alone(world, chain):
    order = await world.place(PROMPTS)
    (miner,), (first, _) = await nodes(world, 1, 2)
    await world.generate(miner)
    await world.audit(first)
    await attend(world, chain)
    world.now += world.policy.live_ms + BLOCK_MS
    await attend(world, chain)
    await attend(world, chain)
    assert await ending(world) == ["alone"]
    assert (await world.order(order)).status == "finalizing"


@pytest.mark.parametrize("way", ["release", "lapse"])
async def test_a_second_opinion_that_is_given_back_is_offered_again(world, chain, way):
    await world.place(PROMPTS)
    (miner,), (first, second, third) = await nodes(world, 1, 3)
    await world.generate(miner)
    await world.audit(first)
    await attend(world, chain)
    await attend(world, chain, blocks=1)
    lost = await world.lease_audit(second)
    assert await world.lease_audit(third) is None
    if way == "release":
        await dispatch.release(world.store, second.hotkey, lost.lease_id, world.now)
    else:
        world.now += world.policy.lease_ms
        await background.reap(world.store, lambda: world.now / 1000)
    assert await world.audit(third) is not None
    assert await ending(world) == ["agreed"]


async def test_validators_that_differ_on_a_unit_they_share_are_heard(world, chain):
    # The first could judge one sample alone, the second finds just that one void.
    world.policy = HARDLY_EVER
    order = await world.place(PROMPTS)
    (miner,), (first, second, third) = await nodes(world, 1, 3)
    await world.generate(miner)
    await world.audit(first, ["verified", *["inconclusive"] * 3])
    await world.audit(second, ["void", *["verified"] * 3])
    await attend(world, chain, blocks=1)
    assert (await world.order(order)).status == "in_progress"
    await world.audit(third)
    assert await ending(world) == ["overruled"]
    assert await is_distrusted(world, second)
    assert not await is_distrusted(world, first)
    assert (await world.order(order)).status == "finalizing"


async def test_two_that_differ_on_a_unit_they_share_make_it_anew(world, chain):
    world.policy = HARDLY_EVER
    order = await world.place(PROMPTS)
    (miner,), (first, second) = await nodes(world, 1, 2)
    await world.generate(miner)
    await world.audit(first, ["verified", *["inconclusive"] * 3])
    await world.audit(second, ["void", *["verified"] * 3])
    assert await ending(world) == ["unresolved"]
    order = await world.order(order)
    assert (order.status, order.samples_verified, order.samples_void) == ("in_progress", 3, 1)
    assert len((await world.lease(miner)).work.samples) == 1
    assert await record(world, miner) == "vvvv"


async def test_no_role_hides_a_validator_that_lied(world, chain):
    world.policy = HARDLY_EVER
    await world.place(PROMPTS)
    (miner,), (liar, second, third) = await nodes(world, 1, 3)
    await world.generate(miner)
    await world.audit(liar, "void")
    # Before the others are asked it calls itself a miner.
    await world.announce(replace(liar, role="miner"))
    await world.audit(second)
    await world.audit(third)
    assert await ending(world) == ["overruled"]
    await world.announce(liar)
    with pytest.raises(GatewayError, match="do not count"):
        await world.lease_audit(liar)


async def test_the_window_ends_reviews_too(world, chain):
    order = await world.place(PROMPTS)
    (miner,), (first, second) = await nodes(world, 1, 2)
    await world.generate(miner)
    await world.audit(first)
    await attend(world, chain)
    await attend(world, chain, blocks=1)
    held = await world.lease_audit(second)
    world.now = order.expires_at_ms
    await background.end_orders(world.store, world.policy, lambda: world.now / 1000)
    order = await world.order(order)
    assert (order.ending, order.samples_verified) == ("expired", 4)
    assert await ending(world) == ["late"]
    (lease,) = await world.rows(Lease, col(Lease.id) == held.lease_id)
    assert lease.state == LeaseState.STOPPED
