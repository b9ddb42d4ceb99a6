"""The straggling tail: a second miner at a unit, of whom one is paid and nobody blamed."""

import pytest
from sqlmodel import col

from gateway.epochs.entries import lapse_entries
from gateway.errors import GatewayError
from gateway.orders import background, dispatch, leases
from gateway.orders.straggling import is_worth_a_second
from gateway.store.tables import Lease, LeaseState, Node, Unit, Verdict
from protocol.messages import Heartbeat


@pytest.mark.parametrize(
    ("elapsed", "done", "speed", "own", "worth"),
    [
        # 1,000 tokens; nothing in the first moments, whoever asks.
        (29, 0, None, 1e6, False),
        # A miner nobody knows, and that has told of nothing.
        (30, 0, None, None, True),
        # One as fast as the other, in time and overdue.
        (50, 400, 10.0, 10.0, False),
        (199, 900, 10.0, 10.0, False),
        (201, 999, 10.0, 10.0, True),
        # A far faster one, at a unit just begun and at one almost done.
        (30, 300, 10.0, 100.0, True),
        (95, 950, 10.0, 100.0, False),
        # It is slower than it ever was: 30 s for 10 tokens.
        (30, 10, 10.0, 10.0, True),
        # By its own word alone, since nothing was measured.
        (50, 500, None, None, False),
        (50, 100, None, 100.0, True),
    ],
)
def test_when_a_second_miner_tries(elapsed, done, speed, own, worth):
    assert is_worth_a_second(elapsed, 1_000, done, speed, own) is worth


async def twice(world):
    """Let two miners be at the one unit of an order."""
    order = await world.place([[1], [2], [3]], n=1)
    slow, fast = await world.node("miner"), await world.node("miner")
    first = await world.lease(slow)
    assert await world.lease(fast) is None
    world.now += 40_000
    second = await world.lease(fast)
    assert second.work == first.work
    assert (first.attempt, second.attempt) == (1, 2)
    return order, (slow, first), (fast, second)


async def beat(world, miner, lease, tokens: int = 1):
    message = Heartbeat(tokens=tokens)
    return await dispatch.heartbeat(
        world.store, miner.hotkey, lease.lease_id, message, world.policy, world.now
    )


async def states(world) -> list[str]:
    rows = await world.rows(Lease, col(Lease.kind) == "generate")
    return [row.state for row in sorted(rows, key=lambda row: row.attempt)]


@pytest.mark.parametrize("winner", [0, 1])
async def test_the_first_result_wins_and_the_other_is_not_blamed(world, winner):
    order, *miners = await twice(world)
    (won, lease), (lost, late) = miners[winner], miners[1 - winner]
    assert not (await beat(world, lost, late)).stop
    result = world.result(won, lease)
    await world.post(won, lease, result)
    assert (await beat(world, lost, late)).stop
    with pytest.raises(GatewayError) as error:
        await world.post(lost, late)
    assert error.value.code == "lease_over"
    # The winner's may be posted again; the other's never counts.
    await world.post(won, lease, result)
    wanted = [LeaseState.STOPPED, LeaseState.STOPPED]
    wanted[winner] = LeaseState.ANSWERED
    assert await states(world) == wanted
    audit = await world.audit(await world.node("validator"))
    assert (audit.miner, audit.attempt) == (won.hotkey, lease.attempt)
    (verdict,) = await world.rows(Verdict)
    assert (verdict.miner, verdict.newly_verified) == (won.hotkey, 3)
    order = await world.order(order)
    assert (order.samples_verified, order.status) == (3, "finalizing")
    assert await lapse_entries(world.store, 0, world.now + 1) == []
    (unit,) = await world.rows(Unit)
    assert (unit.tries, unit.failed_by) == (0, "[]")


async def test_no_third_miner_gets_the_unit(world):
    await twice(world)
    third = await world.node("miner")
    world.now += 10_000
    assert await world.lease(third) is None


async def test_neither_the_same_owner_nor_the_same_miner_gets_it(world):
    await world.place([[1]])
    miner = await world.node("miner", owner="one")
    twin = await world.node("miner", owner="one")
    await world.lease(miner)
    world.now += 40_000
    assert await world.lease(miner) is None
    assert await world.lease(twin) is None


async def test_none_is_tried_twice_while_anything_else_waits(world):
    await world.place([[1 + place] for place in range(8)])
    miner, other = await world.node("miner"), await world.node("miner")
    held = await world.lease(miner)
    world.now += 40_000
    assert (await world.lease(other)).work.unit_id != held.work.unit_id


async def test_one_that_lapses_leaves_the_unit_to_the_other(world):
    order, (slow, _), (fast, second) = await twice(world)
    await beat(world, fast, second)
    world.now += 25_000
    await background.reap(world.store, lambda: world.now / 1000)
    assert await states(world) == [LeaseState.EXPIRED, LeaseState.LIVE]
    (unit,) = await world.rows(Unit)
    assert (unit.state, unit.tries) == ("leased", 1)
    # That one is to blame, alone.
    (entry,) = await lapse_entries(world.store, 0, world.now + 1)
    assert entry.miner == slow.hotkey
    await world.post(fast, second)
    await world.audit(await world.node("validator"))
    assert (await world.order(order)).samples_verified == 3


async def test_one_that_gives_back_or_is_malformed_leaves_it_too(world):
    _, (slow, first), (fast, second) = await twice(world)
    await dispatch.release(world.store, fast.hotkey, second.lease_id, world.now)
    (unit,) = await world.rows(Unit)
    assert (unit.state, unit.tries) == ("leased", 0)
    third = await world.lease(await world.node("miner"))
    assert (third.work, third.attempt) == (first.work, 3)
    broken = world.result(slow, first, samples=[[], *world.answers(first.work)[1:]])
    with pytest.raises(GatewayError) as error:
        await world.post(slow, first, broken)
    assert error.value.code == "malformed_result"
    (unit,) = await world.rows(Unit)
    assert (unit.state, unit.tries) == ("leased", 1)


async def test_both_may_lapse_and_the_unit_waits_again(world):
    await twice(world)
    world.now += world.policy.lease_ms
    ids = await leases.lapsed(world.store, world.now)
    assert [await leases.reap(world.store, one, world.now) for one in ids] == [True, True]
    (unit,) = await world.rows(Unit)
    assert (unit.state, unit.tries) == ("open", 2)


async def test_a_speed_is_of_the_model_that_is_held(world):
    await world.place([[1], [2], [3]])
    miner = await world.node("miner")
    lease = await world.lease(miner)
    world.now += 1_000
    await world.post(miner, lease)
    (node,) = await world.rows(Node, col(Node.hotkey) == miner.hotkey)
    assert node.tokens_per_second > 0
    await world.announce(miner)
    (node,) = await world.rows(Node, col(Node.hotkey) == miner.hotkey)
    assert node.tokens_per_second > 0
    await world.announce(miner, loaded=False)
    (node,) = await world.rows(Node, col(Node.hotkey) == miner.hotkey)
    assert node.tokens_per_second is None
