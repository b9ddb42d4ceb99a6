"""Dispatch: who is leased which unit, and what ends a lease."""

import asyncio
from dataclasses import replace

import pytest
from sqlmodel import col

from gateway.errors import GatewayError
from gateway.orders import dispatch, leases
from gateway.orders.policy import HOUR, MAX_TRIES, MINUTE, Policy, audit_end, generation_end
from gateway.store.tables import Lease, LeaseState, Node, Unit
from protocol.documents import lease_statement
from protocol.draw.key import draw_key, prompt_digest
from protocol.keys import verify_statement
from protocol.messages import Heartbeat


def prompts(count: int) -> list[list[int]]:
    return [[1 + place % 90, 1 + place // 90] for place in range(count)]


async def beat(world, miner, lease, tokens: int):
    message = Heartbeat(tokens=tokens)
    return await dispatch.heartbeat(
        world.store, miner.hotkey, lease.lease_id, message, world.policy, world.now
    )


async def reap(world) -> int:
    ids = await leases.lapsed(world.store, world.now)
    return sum([await leases.reap(world.store, lease_id, world.now) for lease_id in ids])


async def test_a_lease_carries_signed_work(world):
    order = await world.place([[1, 2], [3], [1, 2]], n=2)
    miner = await world.node("miner")
    lease = await world.lease(miner)
    assert lease.work.prompts == [[1, 2], [3]]
    samples = [(sample.prompt, sample.sample_index) for sample in lease.work.samples]
    assert samples == [(0, 0), (0, 1), (1, 0), (1, 1)]
    statement = lease_statement(
        lease.lease_id, lease.attempt, miner.hotkey, lease.issued_at, lease.work
    )
    assert verify_statement(world.keypair.ss58_address, statement, lease.signature)
    rest = await world.lease(miner)
    assert rest.work.prompts == [[1, 2]]
    assert [sample.sample_index for sample in rest.work.samples] == [2, 3]
    assert await world.lease(miner) is None
    order = await world.order(order)
    assert (order.status, order.in_progress_at_ms, order.cursor_line) == (
        "in_progress",
        world.now,
        3,
    )


async def test_draw_keys_are_those_of_the_order(world):
    order = await world.place([[5, 6]], seed=99)
    lease = await world.lease(await world.node("miner"))
    keys = [
        draw_key(lease.work.revision, lease.work.seed, prompt_digest([5, 6]), sample.sample_index)
        for sample in lease.work.samples
    ]
    assert keys == [draw_key(order.revision, 99, prompt_digest([5, 6]), 0)]


async def test_fifty_requests_at_once_double_nothing(world):
    first, second = await world.place(prompts(100)), await world.place(prompts(60), hours=48)
    miners = [await world.node("miner") for _ in range(5)]
    for miner in miners:
        await world.prove(miner)
    granted = await asyncio.gather(*(world.lease(miners[turn % 5]) for turn in range(50)))
    held = [lease for lease in granted if lease is not None]
    assert len(held) == 40
    units = await world.rows(Unit)
    assert len({lease.work.unit_id for lease in held}) == len(units) == 40
    for order, count in ((first, 100), (second, 60)):
        lines = sorted(
            line
            for unit in units
            if unit.order_id == order.id
            for line in range(unit.first_line, unit.end_line)
        )
        assert lines == list(range(count))


async def test_reopened_units_are_claimed_once_each(world):
    await world.place(prompts(40))
    miner = await world.node("miner")
    await world.prove(miner)
    for lease in [await world.lease(miner) for _ in range(10)]:
        await dispatch.release(world.store, miner.hotkey, lease.lease_id, world.now)
    granted = await asyncio.gather(*(world.lease(miner) for _ in range(30)))
    held = [lease for lease in granted if lease is not None]
    assert len({lease.work.unit_id for lease in held}) == len(held) == 10
    assert {lease.attempt for lease in held} == {2}


async def test_an_owner_holds_few_leases_until_more_was_verified_of_it(world):
    await world.place(prompts(400), n=4)
    miner, twin = [await world.node("miner", owner="one") for _ in range(2)]
    other, validator = await world.node("miner"), await world.node("validator")
    held = [await world.lease(miner), await world.lease(twin)]
    assert None not in held
    assert await world.lease(miner) is None and await world.lease(twin) is None
    assert await world.lease(other) is not None
    for lease, holder in zip(held, (miner, twin), strict=True):
        await world.post(holder, lease)
    # Both were handed in; 16 units of 4 samples are verified in all.
    for _ in range(16):
        assert await world.audit(validator) is not None
        await world.generate(twin)
    # 64 samples: a lease more, for both together.
    assert [await world.lease(miner) is None for _ in range(4)] == [False, False, False, True]
    assert await world.lease(twin) is None


async def test_the_earliest_window_goes_first(world):
    await world.place([[1]], hours=72)
    await world.place([[2]], hours=24)
    miner = await world.node("miner")
    assert (await world.lease(miner)).work.prompts == [[2]]
    assert (await world.lease(miner)).work.prompts == [[1]]


async def test_an_unknown_node_is_told_to_announce(world):
    validator = await world.node("validator")
    for call in (world.lease(validator), world.lease_audit(await world.node("miner"))):
        with pytest.raises(GatewayError, match="Announce") as error:
            await call
        assert error.value.status == 403


async def test_other_models_get_nothing(world):
    await world.place()
    miner = await world.node("miner")
    other = replace(miner, holds=miner.holds.model_copy(update={"revision": "cd" * 20}))
    await world.announce(other)
    assert await world.lease(other) is None


async def test_waiting_audits_hold_generation_back(world):
    world.policy = Policy(unit_samples=1, audit_backlog=2)
    await world.place(prompts(4))
    miner, validator = await world.node("miner"), await world.node("validator")
    for _ in range(2):
        assert await world.generate(miner) is not None
    assert await world.lease(miner) is None
    audit = await world.lease_audit(validator)
    assert await world.lease(miner) is None
    votes = world.verdicts(validator, audit, ["verified"])
    await world.judge(validator, audit, votes)
    assert await world.lease(miner) is not None


async def test_a_dead_miners_unit_is_finished_by_another(world):
    await world.place(prompts(4))
    dead, alive = await world.node("miner"), await world.node("miner")
    lost = await world.lease(dead)
    world.now += world.policy.lease_ms - 1
    assert await reap(world) == 0
    world.now += 1
    assert await reap(world) == 1
    taken = await world.lease(alive)
    assert taken.work.unit_id == lost.work.unit_id
    assert (lost.attempt, taken.attempt) == (1, 2)


async def test_heartbeats_keep_a_lease(world):
    await world.place(prompts(4))
    miner = await world.node("miner")
    lease = await world.lease(miner)
    for step in range(5):
        world.now += world.policy.lease_ms - 1
        answer = await beat(world, miner, lease, tokens=step + 1)
        assert not answer.stop
        assert answer.expires_at == (world.now + world.policy.lease_ms) / 1000
    assert await reap(world) == 0


async def test_a_lease_without_progress_is_ended(world):
    await world.place(prompts(4))
    miner = await world.node("miner")
    lease = await world.lease(miner)
    assert not (await beat(world, miner, lease, 5)).stop
    world.now += world.policy.stall_ms
    assert (await beat(world, miner, lease, 5)).stop
    assert (await beat(world, miner, lease, 6)).stop
    (row,) = await world.rows(Lease)
    assert row.state == LeaseState.EXPIRED


async def test_no_progress_keeps_a_lease_past_its_end(world):
    order = await world.place(prompts(4))
    squatter, honest = await world.node("miner"), await world.node("miner")
    lease = await world.lease(squatter)
    assert lease.ends_at * 1000 == world.now + world.policy.shortest_term_ms
    for step in range(1, 100):
        world.now += world.policy.lease_ms - 1
        answer = await beat(world, squatter, lease, tokens=step)
        assert answer.expires_at <= lease.ends_at
        if answer.stop:
            break
        assert world.now < lease.ends_at * 1000
    (row,) = await world.rows(Lease)
    assert row.state == LeaseState.EXPIRED
    # No more tokens than there are to generate are believed.
    assert row.tokens <= 4 * order.max_tokens
    await world.announce(honest)
    assert (await world.lease(honest)).work.unit_id == lease.work.unit_id


async def test_an_audit_ends_however_often_it_is_renewed(world):
    await world.place(prompts(4))
    miner, validator = await world.node("miner"), await world.node("validator")
    await world.generate(miner)
    audit = await world.lease_audit(validator)
    stopped = []
    while not stopped or not stopped[-1]:
        world.now += world.policy.lease_ms - 1
        stopped.append((await beat(world, validator, audit, len(stopped) + 1)).stop)
        assert world.now <= audit.ends_at * 1000 + world.policy.lease_ms
    (unit,) = await world.rows(Unit)
    assert unit.state == "submitted"


@pytest.mark.parametrize(
    ("tokens", "hours_left", "minutes"),
    [
        (1, 24, 10),  # never sooner than the shortest term
        (36_000, 24, 60),  # at the slowest speed
        (10_000_000, 24, 360),  # at most a quarter of the window
        (10_000_000, 0.5, 10),
        (10_000_000, 0.1, 6),  # and never past it
    ],
)
def test_the_end_of_a_lease(tokens, hours_left, minutes):
    policy = Policy()
    end = generation_end(policy, 1, tokens, round(hours_left * HOUR), 0)
    assert end == minutes * MINUTE
    assert audit_end(policy, 10 * tokens, round(hours_left * HOUR), 0) == end


async def test_leases_given_back_are_counted(world):
    world.policy = Policy(unit_samples=1, unanswered_leases=3)
    await world.place(prompts(12))
    miner, validator = await world.node("miner"), await world.node("validator")
    await world.generate(miner)
    for node, lease_one in ((miner, world.lease), (validator, world.lease_audit)):
        for _ in range(3):
            lease = await lease_one(node)
            await dispatch.release(world.store, node.hotkey, lease.lease_id, world.now)
        with pytest.raises(GatewayError, match="3 leases of this model commit") as error:
            await lease_one(node)
        assert (error.value.status, error.value.code) == (403, "leases_unanswered")
    other = await world.node("miner")
    assert await world.lease(other) is not None
    world.now += world.policy.unanswered_ms
    for node, lease_one in ((miner, world.lease), (validator, world.lease_audit)):
        await world.announce(node)
        assert await lease_one(node) is not None


async def test_a_node_that_answers_as_much_may_give_back(world):
    world.policy = Policy(unit_samples=1, unanswered_leases=3)
    await world.place(prompts(12))
    miner = await world.node("miner")
    for _ in range(4):
        await world.generate(miner)
        lease = await world.lease(miner)
        await dispatch.release(world.store, miner.hotkey, lease.lease_id, world.now)
    assert await world.lease(miner) is not None


async def test_a_released_unit_waits_again_and_blames_nobody(world):
    await world.place(prompts(4))
    miner = await world.node("miner")
    await world.node("miner")
    lease = await world.lease(miner)
    for _ in range(2):
        await dispatch.release(world.store, miner.hotkey, lease.lease_id, world.now)
    (unit,) = await world.rows(Unit)
    assert (unit.state, unit.tries, unit.failed_by) == ("open", 0, "[]")
    assert (await world.lease(miner)).attempt == 2


async def test_another_nodes_lease_is_as_unknown(world):
    await world.place(prompts(4))
    lease = await world.lease(await world.node("miner"))
    other = await world.node("miner")
    calls = (
        beat(world, other, lease, 1),
        dispatch.release(world.store, other.hotkey, lease.lease_id, world.now),
        world.post(other, lease),
        beat(world, other, lease.model_copy(update={"lease_id": "0" * 36}), 1),
    )
    for call in calls:
        with pytest.raises(GatewayError) as error:
            await call
        assert (error.value.status, error.value.code) == (404, "lease_not_found")


async def test_eight_lapsed_leases_are_the_end(world):
    order = await world.place(prompts(4))
    miner = await world.node("miner")
    for _ in range(MAX_TRIES):
        assert await world.lease(miner) is not None
        world.now += world.policy.lease_ms
        assert await reap(world) == 1
    assert await world.lease(miner) is None
    order = await world.order(order)
    assert (order.samples_missing, order.status) == (4, "finalizing")


async def test_a_failed_unit_goes_to_another_miner_while_one_lives(world):
    await world.place(prompts(4))
    failed, other = await world.node("miner"), await world.node("miner", loaded=False)
    await world.lease(failed)
    world.now += world.policy.lease_ms
    await reap(world)
    assert await world.lease(failed) is None
    world.now += world.policy.live_ms
    await world.announce(failed)
    assert await world.lease(failed) is not None
    assert other.hotkey != failed.hotkey


async def test_an_idle_miner_keeps_a_failed_unit_from_nobody_for_long(world):
    await world.place(prompts(4))
    only, idle = await world.node("miner"), await world.node("miner")
    await world.lease(only)
    world.now += world.policy.lease_ms
    await reap(world)
    for waited in range(0, world.policy.exclusion_ms, world.policy.lease_ms):
        assert await world.lease(only) is None, waited
        world.now += world.policy.lease_ms
        for node in (only, idle):
            await world.announce(node)
    assert await world.lease(only) is not None


async def test_another_hotkey_of_the_same_owner_is_no_other_miner(world):
    await world.place(prompts(4))
    failed = await world.node("miner", owner="one")
    twin = await world.node("miner", owner="one")
    await world.lease(failed)
    world.now += world.policy.lease_ms
    await reap(world)
    # Nobody else lives, so either may have it.
    other = await world.node("miner", owner="two")
    for node in (failed, twin):
        assert await world.lease(node) is None
    assert await world.lease(other) is not None


async def test_a_miner_that_could_not_serve_the_model_does_not_count(world):
    await world.place(prompts(4))
    failed = await world.node("miner")
    await world.node("miner", loaded=False, able=False)
    await world.lease(failed)
    world.now += world.policy.lease_ms
    await reap(world)
    assert await world.lease(failed) is not None


async def test_the_demand_board_counts_what_waits(world):
    assert (await dispatch.demand(world.store, world.policy, world.now)).demands == []
    order = await world.place(prompts(6), n=2)
    miner = await world.node("miner")
    await world.lease(miner)
    released = await world.lease(miner)
    await dispatch.release(world.store, miner.hotkey, released.lease_id, world.now)
    (row,) = (await dispatch.demand(world.store, world.policy, world.now)).demands
    assert (row.waiting_samples, row.waiting_audits) == (8, 0)
    assert row.deadline == order.expires_at_ms / 1000
    await world.generate(miner)
    (row,) = (await dispatch.demand(world.store, world.policy, world.now)).demands
    assert (row.waiting_samples, row.waiting_audits) == (4, 4)


async def test_an_announcement_keeps_what_is_known_of_a_node(world):
    miner = await world.node("miner")
    async with world.store.write() as session:
        node = await session.get(Node, miner.hotkey)
        node.convicted_at_ms = 1
        session.add(node)
    world.now += 5
    await world.announce(miner, loaded=False)
    (node,) = await world.rows(Node, col(Node.hotkey) == miner.hotkey)
    assert (node.convicted_at_ms, node.loaded_model, node.seen_at_ms) == (1, None, world.now)
    assert node.registered_at_ms == world.now - 5
