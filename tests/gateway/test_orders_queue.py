"""The line of waiting orders: places, estimated starts, and the limit of quotes a day."""

import asyncio

import pytest
from sqlalchemy import event
from sqlmodel import select

from gateway.errors import GatewayError
from gateway.orders import dispatch
from gateway.orders.policy import Policy
from gateway.orders.queue import Place, places_in_line, seconds_until
from gateway.orders.quotes import count_quote
from gateway.store.tables import Node, Quote
from protocol.messages import Heartbeat

HOUR = 3_600_000
SIX = [[1, 2, 3]] * 6


async def place_of(world, order) -> Place:
    places = await places_in_line(world.store, [order], world.policy, world.now)
    return places[order.id]


async def set_speed(world, node, speed: float | None) -> None:
    async with world.store.write() as session:
        row = await session.get(Node, node.hotkey)
        row.tokens_per_second = speed
        session.add(row)


async def heartbeat(world, miner, lease, tokens: int) -> None:
    await dispatch.heartbeat(
        world.store, miner.hotkey, lease.lease_id, Heartbeat(tokens=tokens), world.policy, world.now
    )


@pytest.mark.parametrize(
    ("tokens", "speeds", "seconds"),
    [
        (0, [], None),
        (0, [None], 0),
        (0, [5.0], 0),
        (100, [], None),
        (100, [None, None], None),
        (100, [0.0], None),
        (100, [10.0], 10),
        (100, [10.0, 30.0], 2.5),
        # A miner that was never measured counts as the mean of the others.
        (100, [10.0, 30.0, None, None], 1.25),
    ],
)
def test_time_of_work(tokens: float, speeds: list[float | None], seconds: float | None):
    assert seconds_until(tokens, speeds) == seconds


async def test_nobody_to_wait_for(world):
    order = await world.place()
    assert await place_of(world, order) == Place(1, None, waits_for_capacity=True)
    await world.node("validator")
    await world.node("miner", loaded=False, able=False)
    assert await place_of(world, order) == Place(1, None, waits_for_capacity=True)


@pytest.mark.parametrize("loaded", [True, False])
async def test_a_free_miner_starts_at_once(world, loaded: bool):
    order = await world.place()
    node = await world.node("miner", loaded=loaded)
    assert await place_of(world, order) == Place(1, world.now, waits_for_capacity=False)
    # One that went silent takes nothing.
    world.now += world.policy.live_ms + 1
    assert await place_of(world, order) == Place(1, None, waits_for_capacity=True)
    await world.announce(node)
    assert (await place_of(world, order)).waits_for_capacity is False


async def test_what_goes_before_is_waited_for(world):
    miner = await world.node("miner")
    late = await world.place(SIX, hours=48)
    early = await world.place(SIX, hours=24, n=2, max_tokens=8)
    assert await place_of(world, early) == Place(1, world.now, waits_for_capacity=False)
    assert await place_of(world, late) == Place(2, None, waits_for_capacity=True)
    await set_speed(world, miner, 4.0)
    # 12 samples of half of 8 tokens each, at 4 tokens a second.
    assert await place_of(world, late) == Place(2, world.now + 12_000, waits_for_capacity=True)
    await set_speed(world, await world.node("miner"), 8.0)
    assert await place_of(world, late) == Place(2, world.now + 4_000, waits_for_capacity=True)


async def test_a_page_of_places_is_read_at_once(world):
    await set_speed(world, await world.node("miner"), 4.0)
    orders = [await world.place(SIX, hours=hours) for hours in (30, 24, 40, 26)]
    statements: list[str] = []

    def note(_connection, _cursor, statement: str, *_: object) -> None:
        statements.append(statement)

    engine = world.store._reader.sync_engine
    event.listen(engine, "before_cursor_execute", note)
    alone = [await place_of(world, order) for order in orders]
    each = len(statements) / len(orders)
    statements.clear()
    together = await places_in_line(world.store, orders, world.policy, world.now)
    event.remove(engine, "before_cursor_execute", note)
    assert [together[order.id] for order in orders] == alone
    assert [place.position for place in alone] == [3, 1, 4, 2]
    assert len(statements) == each > 0


async def test_what_miners_hold_is_waited_for(world):
    miner = await world.node("miner")
    await set_speed(world, miner, 1.0)
    first = await world.place([[1, 2, 3]] * 4, hours=24, max_tokens=8)
    waiting = await world.place(SIX, hours=48)
    stale = await world.order(first)
    lease = await world.lease(miner)
    assert (await world.order(first)).status == "in_progress"
    # As it was before, it is not shown to wait for its own work.
    places = await places_in_line(world.store, [stale], world.policy, world.now)
    assert places[first.id] == Place(1, world.now, waits_for_capacity=False)
    # The unit holds all four samples; nobody else waits before.
    assert await place_of(world, waiting) == Place(1, world.now + 16_000, waits_for_capacity=True)
    await heartbeat(world, miner, lease, tokens=10)
    assert await place_of(world, waiting) == Place(1, world.now + 6_000, waits_for_capacity=True)
    await heartbeat(world, miner, lease, tokens=31)
    assert await place_of(world, waiting) == Place(1, world.now, waits_for_capacity=False)


async def test_measured_samples_replace_the_guess(world):
    miner, validator = await world.node("miner"), await world.node("validator")
    before = await world.place([[1, 2, 3]] * 8, hours=24, max_tokens=1_000)
    waiting = await world.place(SIX, hours=48)
    await world.generate(miner)
    await world.audit(validator)
    row = await world.order(before)
    assert row.samples_verified == 4
    await set_speed(world, miner, 1.0)
    seconds = 4 * row.tokens_verified / row.samples_verified
    place = await place_of(world, waiting)
    assert place == Place(1, world.now + round(1_000 * seconds), waits_for_capacity=True)


async def test_a_full_audit_holds_new_work_back(world):
    miner = await world.node("miner")
    world.policy = Policy(unit_samples=1, audit_backlog=1)
    await world.place(hours=24)
    waiting = await world.place(hours=48)
    await world.generate(miner)
    assert await world.lease(miner) is None
    assert await place_of(world, waiting) == Place(1, None, waits_for_capacity=True)


async def test_quotes_of_any_day_are_limited(world):
    policy = Policy(quotes_per_day=3)

    async def quote(at: int) -> None:
        await count_quote(world.store, world.account_id, policy, world.now + at)

    for at in (0, HOUR, 2 * HOUR):
        await quote(at)
    for at, seconds in ((2 * HOUR, 60), (24 * HOUR - 30_000, 31), (24 * HOUR - 1, 1)):
        with pytest.raises(GatewayError) as refused:
            await quote(at)
        assert (refused.value.status, refused.value.code) == (429, "rate_limited")
        assert refused.value.retry_after == seconds
        assert not refused.value.final
    await quote(24 * HOUR)
    with pytest.raises(GatewayError):
        await quote(25 * HOUR - 1)
    await quote(25 * HOUR)
    await world.open_account("other")
    await count_quote(world.store, "other", policy, world.now + 25 * HOUR)
    assert len(await world.rows(Quote)) == 4


async def test_quotes_at_once_pass_no_limit(world):
    policy = Policy(quotes_per_day=3)
    work = [count_quote(world.store, world.account_id, policy, world.now) for _ in range(8)]
    outcomes = await asyncio.gather(*work, return_exceptions=True)
    assert [outcome for outcome in outcomes if outcome is None] == [None] * 3
    assert len([one for one in outcomes if isinstance(one, GatewayError)]) == 5
    async with world.store.read() as session:
        assert len((await session.exec(select(Quote))).all()) == 3
