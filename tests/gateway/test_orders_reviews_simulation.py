"""Dishonest validators and miners among honest ones, over a whole order."""

import random

import pytest
from second_opinions import attend, audit_honestly, cheat, is_distrusted, nodes, record
from sqlmodel import col

from gateway.errors import GatewayError
from gateway.orders import background
from gateway.orders.content import unit_work
from gateway.orders.policy import HOUR, Policy
from gateway.store.tables import Lease, Order, Unit, Verdict
from protocol.chain.local import LocalChain
from protocol.messages import Result


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
