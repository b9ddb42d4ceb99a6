"""Miners' records with a model commit: what suspends a miner, and what does not."""

from dataclasses import replace

from outcomes import counts, refused
from second_opinions import record
from sqlmodel import col, update

from gateway.orders import leases
from gateway.orders.policy import Policy
from gateway.store.tables import Order
from scoring.reputation import LIFE_MS

PROMPTS = ((1, 2), (3,), (4, 5, 6), (7,))


async def test_a_cheat_is_given_no_further_work(world):
    cheat, honest = await world.node("miner"), await world.node("miner")
    validator = await world.node("validator")
    order = await world.place([[place] for place in range(1, 13)])
    await world.generate(cheat)
    await world.audit(validator, ["void", "void", "void", "verified"])
    await world.finish(honest, validator)
    message = await refused(world.lease(cheat), 403, "miner_suspended")
    assert "void" in message
    assert counts(await world.order(order)) == (12, 3, 0, 12)


async def test_voids_are_forgotten_after_a_day(world):
    cheat, honest = await world.node("miner"), await world.node("miner")
    validator = await world.node("validator")
    await world.place([[place] for place in range(1, 13)], hours=72)
    await world.generate(cheat)
    await world.audit(validator, "void")
    await world.generate(honest)
    await world.audit(validator)
    await refused(world.lease(cheat), 403, "miner_suspended")
    world.now += LIFE_MS
    await world.announce(cheat)
    assert await world.lease(cheat) is not None


async def test_weights_that_round_badly_get_no_miner_suspended(world):
    """A customer orders weights on which no two machines agree: all that anybody makes is void."""
    await world.place([[place] for place in range(1, 13)])
    miners = [await world.node("miner") for _ in range(3)]
    validator = await world.node("validator")
    for miner in miners:
        await world.generate(miner)
        await world.audit(validator, "void")
    for miner in miners:
        assert await record(world, miner) == "oooo"
        assert await world.lease(miner) is not None


async def test_a_hotkey_of_the_same_owner_vouches_for_no_void(world):
    await world.place([[place] for place in range(1, 13)])
    miner, twin = await world.node("miner", owner="one"), await world.node("miner", owner="one")
    validator = await world.node("validator")
    await world.generate(miner)
    await world.audit(validator, "void")
    await world.generate(twin)
    await world.audit(validator)
    assert await world.lease(miner) is not None


async def test_voids_count_against_work_of_their_commit_alone(world):
    await world.place([[place] for place in range(1, 13)])
    cheat, honest = await world.node("miner"), await world.node("miner")
    validator = await world.node("validator")
    await world.generate(cheat)
    await world.audit(validator, "void")
    await world.generate(honest)
    await world.audit(validator)
    await refused(world.lease(cheat), 403, "miner_suspended")
    elsewhere = await another_commit(world, cheat)
    assert await world.lease(elsewhere) is not None


async def another_commit(world, node):
    """Place an order of another commit and let a node hold it."""
    order = await world.place([[1]])
    async with world.store.write() as session:
        await session.exec(
            update(Order).where(col(Order.id) == order.id).values(revision="cd" * 20)
        )
    moved = replace(node, holds=node.holds.model_copy(update={"revision": "cd" * 20}))
    await world.announce(moved)
    return moved


async def test_a_model_that_brings_engines_down_keeps_nobody_from_another(world):
    world.policy = Policy(unit_samples=1, unanswered_leases=2)
    await world.place([[place] for place in range(1, 13)])
    miner = await world.node("miner")
    for _ in range(2):
        lease = await world.lease(miner)
        await leases.release(world.store, miner.hotkey, lease.lease_id, world.now)
    await refused(world.lease(miner), 403, "leases_unanswered")
    assert await world.lease(await another_commit(world, miner)) is not None


async def test_a_suspended_miner_is_no_other_miner(world):
    await world.place([[place] for place in range(1, 13)])
    cheat, honest = await world.node("miner"), await world.node("miner")
    validator = await world.node("validator")
    await world.generate(cheat)
    await world.audit(validator, "void")
    await world.generate(honest)
    await world.audit(validator, ["void", "verified", "verified", "verified"])
    assert await world.lease(honest) is not None
