"""Second opinions: drawn by the chain, given by another owner, settled by a third."""

import random
from dataclasses import replace

import pytest
from sqlmodel import col

from gateway.errors import GatewayError
from gateway.orders import background, dispatch, reviewing
from gateway.orders.content import unit_work
from gateway.orders.policy import HOUR, Policy
from gateway.store.tables import Lease, LeaseState, Node, Order, Review, Unit, Verdict
from protocol.chain.local import LocalChain
from protocol.messages import Result

BLOCK_MS = 12_000
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


async def attend(world, chain, blocks: int = 0) -> None:
    """Let blocks pass, all nodes stay alive, and do the background work before and after."""
    await reviewing.attend(world.store, chain, world.policy, world.now)
    world.now += blocks * BLOCK_MS
    await reviewing.attend(world.store, chain, world.policy, world.now)


async def nodes(world, miners: int, validators: int):
    return (
        [await world.node("miner") for _ in range(miners)],
        [await world.node("validator") for _ in range(validators)],
    )


async def cheat(world, miner):
    """Post a result of legal form that no model gave."""
    lease = await world.lease(miner)
    if lease is not None:
        samples = [[94, 95]] * len(lease.work.samples)
        await world.post(miner, lease, world.result(miner, lease, samples=samples))


async def audit_honestly(world, validator):
    lease = await world.lease_audit(validator)
    if lease is not None:
        await world.judge(validator, lease, world.verdicts(validator, lease, world.truth(lease)))
    return lease


async def ending(world) -> list[str | None]:
    rows = await world.rows(Review)
    return [row.ending for row in sorted(rows, key=lambda row: row.id)]


async def record(world, miner) -> str:
    (row,) = await world.rows(Node, col(Node.hotkey) == miner.hotkey)
    return row.outcomes


async def is_distrusted(world, node) -> bool:
    (row,) = await world.rows(Node, col(Node.hotkey) == node.hotkey)
    return (row.distrusted_until_ms or 0) > world.now


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
    (row,) = (await dispatch.demand(world.store, world.now)).demands
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


async def check_truth(world, unit) -> None:
    """See that what a unit delivers is what the model gives."""
    if "v" not in unit.outcomes:
        return
    (order,) = await world.rows(Order, col(Order.id) == unit.order_id)
    (lease,) = await world.rows(Lease, col(Lease.id) == unit.result_lease_id)
    work = await unit_work(world.store.objects, order, unit)
    claimed = Result.model_validate_json(await world.store.objects.get(lease.object_key)).samples
    for letter, ids, honest in zip(unit.outcomes, claimed, world.answers(work), strict=True):
        assert letter != "v" or ids == honest


def lazily(lease, rng):
    return ["verified"] * len(lease.work.samples)


def hostile(lease, rng):
    return ["void"] * len(lease.work.samples)


def at_random(lease, rng):
    return rng.choices(["verified", "void", "inconclusive"], k=len(lease.work.samples))


@pytest.mark.parametrize(
    ("share", "judges"),
    [(1.0, (lazily, hostile)), (0.5, (lazily, at_random)), (0.5, (hostile, lazily))],
)
async def test_dishonest_validators_and_miners_among_honest_ones(
    sqlite_world, tmp_path, share, judges
):
    """Nothing that was not generated is delivered where all is reviewed; less where a share is."""
    world = sqlite_world
    world.policy = Policy(unit_samples=4, second_opinions=share)
    chain = LocalChain(tmp_path / "chain.sqlite", lambda: world.now / 1000)
    order = await world.place([[1 + place, 2] for place in range(40)])
    (cheating, *honest_miners), validators = await nodes(world, 3, 3)
    dishonest = [(await world.node("validator"), judge) for judge in judges]
    rng = random.Random(5)
    while (order := await world.order(order)).status in ("validating", "in_progress"):
        every = [cheating, *honest_miners, *validators, *(node for node, _ in dishonest)]
        for node in every:
            await world.announce(node)
        try:
            await cheat(world, cheating)
        except GatewayError as error:
            assert error.code in ("miner_suspended", "leases_unanswered")
        for miner in honest_miners:
            await world.generate(miner)
        for validator, judge in dishonest:
            try:
                lease = await world.lease_audit(validator)
            except GatewayError as error:
                assert error.code == "validator_distrusted"
                continue
            if lease is not None:
                votes = judge(lease, rng)
                await world.judge(validator, lease, world.verdicts(validator, lease, votes))
        for validator in validators:
            await audit_honestly(world, validator)
        await attend(world, chain, blocks=1)
        await background.reap(world.store, lambda: world.now / 1000)
        await background.end_orders(world.store, world.policy, lambda: world.now / 1000)
    assert (order.ending, order.samples_verified, order.samples_missing) == ("completed", 40, 0)
    assert world.now - order.created_at_ms < 4 * HOUR
    for node, judge in dishonest:
        assert await is_distrusted(world, node) or judge is lazily
    for node in validators:
        assert not await is_distrusted(world, node)
    for miner in honest_miners:
        assert "x" not in await record(world, miner)
    rows = await world.rows(Verdict)
    assert sum(row.newly_verified for row in rows) == order.samples_verified
    units = await world.rows(Unit)
    assert all(unit.state == "closed" for unit in units)
    if share == 1.0:
        for unit in units:
            await check_truth(world, unit)
