"""How orders end: cancelled in each state, expired, failed; and nothing else."""

import pytest
from exports import content, run_export

from gateway.errors import GatewayError
from gateway.ledger.charges import bills
from gateway.orders import background, leases, life, transitions
from gateway.store.tables import OPEN_STATUSES, Ending, Order, Unit
from protocol.messages import Heartbeat

PROMPTS = [[place] for place in range(1, 13)]
HOUR = 3_600_000


async def end_orders(world) -> None:
    await background.end_orders(world.store, world.policy, lambda: world.now / 1000)


async def cancel(world, order):
    return await life.cancel(world.store, world.account_id, order.id, world.now)


async def not_cancellable(world, order) -> None:
    with pytest.raises(GatewayError) as error:
        await cancel(world, order)
    assert (error.value.status, error.value.code) == (409, "batch_not_cancellable")
    assert error.value.final


async def without_a_model(world, order) -> None:
    """Export an order whose model is gone from the hub meanwhile."""
    assert await run_export(world, order, world.folder / "no-model")


async def accounts_for_every_line(world, order) -> None:
    """Check the error file of an order of one refused line and 12 others of 2 samples each."""
    assert order.output_file_id is None
    refused, *others = await content(world, order.error_file_id)
    assert (refused["line"], refused["error"]["code"]) == (1, "stop_unavailable")
    assert [row["prompt_index"] for row in others] == list(range(12))
    error = {"code": "missing_samples", "message": "0 of 2 samples delivered"}
    assert [row["error"] for row in others] == [error] * 12
    assert (await bills(world.store, [order]))[order.id].charged == 0


async def test_a_waiting_order_is_cancelled_at_once(world):
    order = await cancel(world, await world.place(PROMPTS, n=2, refused=1))
    assert (order.status, order.ending) == ("cancelling", Ending.CANCELLED)
    assert order.samples_missing == 24
    assert await world.lease(await world.node("miner")) is None
    assert (await cancel(world, order)).status == "cancelling"
    await without_a_model(world, order)
    order = await world.order(order)
    assert (order.status, order.cancelled_at_ms) == ("cancelled", world.now)
    await not_cancellable(world, order)
    await accounts_for_every_line(world, order)


async def test_units_in_flight_finish_after_a_cancel(world):
    order = await world.place(PROMPTS)
    miner, validator = await world.node("miner"), await world.node("validator")
    await world.generate(miner)
    flying = await world.lease(miner)
    order = await cancel(world, order)
    assert (order.status, order.cancelling_at_ms) == ("cancelling", world.now)
    assert (await cancel(world, order)).status == "cancelling"
    assert await world.lease(miner) is None
    await world.post(miner, flying)
    await end_orders(world)
    assert (await world.order(order)).ending is None
    await world.audit(validator, ["verified", "void", "verified", "verified"])
    await world.audit(validator)
    # A void sample of a cancelled order is not generated again.
    assert await world.lease(await world.node("miner")) is None
    await end_orders(world)
    order = await world.order(order)
    assert (order.status, order.ending) == ("cancelling", Ending.CANCELLED)
    assert (order.samples_verified, order.samples_missing) == (7, 5)


async def test_the_grace_after_a_cancel_is_bounded(world):
    order = await world.place(PROMPTS)
    miner = await world.node("miner")
    flying = await world.lease(miner)
    await cancel(world, order)
    world.now += world.policy.cancel_grace_ms - 1
    await end_orders(world)
    assert (await world.order(order)).ending is None
    world.now += 1
    await end_orders(world)
    order = await world.order(order)
    assert (order.ending, order.samples_missing) == (Ending.CANCELLED, 12)
    answer = await leases.heartbeat(
        world.store, miner.hotkey, flying.lease_id, Heartbeat(tokens=1), world.policy, world.now
    )
    assert answer.stop
    with pytest.raises(GatewayError, match="over"):
        await world.post(miner, flying)


async def test_a_lapsed_unit_of_a_cancelled_order_is_not_offered_again(world):
    order = await world.place(PROMPTS)
    miner = await world.node("miner")
    await world.lease(miner)
    given_back = await world.lease(miner)
    await cancel(world, order)
    await leases.release(world.store, miner.hotkey, given_back.lease_id, world.now)
    world.now += world.policy.lease_ms
    await background.reap(world.store, lambda: world.now / 1000)
    assert {unit.state for unit in await world.rows(Unit)} == {"closed"}
    await end_orders(world)
    assert (await world.order(order)).ending == Ending.CANCELLED


async def test_open_units_are_skipped_by_a_cancel(world):
    order = await world.place(PROMPTS)
    miner = await world.node("miner")
    lease = await world.lease(miner)
    await leases.release(world.store, miner.hotkey, lease.lease_id, world.now)
    await cancel(world, order)
    await end_orders(world)
    assert (await world.order(order)).ending == Ending.CANCELLED


async def test_a_finalizing_order_is_not_cancellable(world):
    order = await world.place([[1]])
    await world.finish(await world.node("miner"), await world.node("validator"))
    await not_cancellable(world, order)


async def test_an_order_that_never_started_expires_with_an_account_of_its_lines(world):
    order = await world.place(PROMPTS, n=2, refused=1)
    world.now += 24 * HOUR - 1
    await end_orders(world)
    assert (await world.order(order)).status == "validating"
    world.now += 1
    assert await world.lease(await world.node("miner")) is None
    await end_orders(world)
    order = await world.order(order)
    assert (order.status, order.ending) == ("finalizing", Ending.EXPIRED)
    assert (order.finalizing_at_ms, order.samples_missing) == (world.now, 24)
    await not_cancellable(world, order)
    await without_a_model(world, order)
    order = await world.order(order)
    assert (order.status, order.expired_at_ms) == ("expired", world.now)
    await accounts_for_every_line(world, order)


async def test_a_running_order_stops_at_the_end_of_its_window(world):
    order = await world.place(PROMPTS)
    miner, validator = await world.node("miner"), await world.node("validator")
    await world.generate(miner)
    await world.audit(validator)
    await world.generate(miner)
    late = await world.lease(miner)
    audit = await world.lease_audit(validator)
    world.now += 24 * HOUR
    await end_orders(world)
    order = await world.order(order)
    assert (order.status, order.ending) == ("finalizing", Ending.EXPIRED)
    assert (order.samples_verified, order.samples_missing) == (4, 8)
    with pytest.raises(GatewayError, match="over"):
        await world.post(miner, late)
    with pytest.raises(GatewayError, match="over"):
        votes = world.verdicts(validator, audit, ["verified"] * 4)
        await world.judge(validator, audit, votes)
    await not_cancellable(world, order)


async def test_ending_twice_changes_nothing(world):
    order = await world.place(PROMPTS)
    await world.lease(await world.node("miner"))
    world.now += 24 * HOUR
    await end_orders(world)
    first = await world.order(order)
    world.now += HOUR
    await end_orders(world)
    assert (await world.order(order)).model_dump() == first.model_dump()


ARROWS = {
    "start": lambda session, order: transitions.start(session, order.id, 1),
    "cancel_unstarted": lambda session, order: transitions.cancel_unstarted(session, order.id, 1),
    "expire_unstarted": lambda session, order: transitions.expire_unstarted(session, order.id, 1),
    "begin_cancel": lambda session, order: transitions.begin_cancel(session, order.id, 1),
    "finalize": lambda session, order: transitions.finalize(session, order.id, Ending.COMPLETED, 1),
    "stop_cancelled": lambda session, order: transitions.stop_cancelled(session, order.id),
    "deliver": lambda session, order: transitions.deliver(session, order, 1),
    "fail": lambda session, order: transitions.fail(session, order, "code", "why", None, 1),
}
LEGAL = {
    ("validating", None): {
        "start": "in_progress",
        "cancel_unstarted": "cancelling",
        "expire_unstarted": "finalizing",
    },
    ("in_progress", None): {"begin_cancel": "cancelling", "finalize": "finalizing"},
    ("finalizing", "completed"): {"deliver": "completed", "fail": "failed"},
    ("finalizing", "expired"): {"deliver": "expired", "fail": "failed"},
    ("cancelling", "cancelled"): {
        "stop_cancelled": "cancelling",
        "deliver": "cancelled",
        "fail": "failed",
    },
    ("completed", "completed"): {},
    ("expired", "expired"): {},
    ("cancelled", "cancelled"): {},
    ("failed", "completed"): {},
}


async def test_only_the_drawn_transitions_can_happen(sqlite_world):
    world = sqlite_world
    order = await world.place(PROMPTS)
    # Their states are set by hand, without the times that they come with.
    world.inputs.clear()
    world.settles = False
    for (status, ending), legal in LEGAL.items():
        for name, arrow in ARROWS.items():
            async with world.store.write() as session:
                row = await session.get(Order, order.id)
                row.status, row.ending = status, ending
                session.add(row)
            row = await world.order(order)
            if name in legal:
                async with world.store.write() as session:
                    await arrow(session, row)
            else:
                with pytest.raises(transitions.NotInState):
                    async with world.store.write() as session:
                        await arrow(session, row)
            assert (await world.order(order)).status == legal.get(name, status)
            if name in legal and legal[name] not in OPEN_STATUSES:
                # Its money is settled now.
                order = await world.place(PROMPTS)
                world.inputs.clear()
