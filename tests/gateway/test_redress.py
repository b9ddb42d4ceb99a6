"""What a distrusted validator alone had judged and was delivered: judged again, and paid back."""

from dataclasses import replace

import pytest
from exports import run_export
from second_opinions import attend, cheat, is_distrusted, record
from sqlmodel import col

from gateway.epochs.writing import write_due
from gateway.ledger.balance import balances
from gateway.ledger.charges import bills
from gateway.ledger.check import check
from gateway.orders.demand import demand as demand_board
from gateway.orders.policy import Policy
from gateway.store.tables import Epoch, Lease, Node, Review, Transfer, Verdict
from protocol.chain.local import LocalChain
from protocol.epochs import EpochRecord

PROMPTS = [[1, 2], [3], [4, 5, 6], [7]]
HOUR = 3_600_000


@pytest.fixture
def world(sqlite_world):
    sqlite_world.policy = Policy(unit_samples=2)
    return sqlite_world


@pytest.fixture
def chain(world, tmp_path):
    return LocalChain(tmp_path / "chain.sqlite", lambda: world.now / 1000)


async def delivered(world, folder, *, cheats: int, prompts=PROMPTS):
    """Deliver an order whose first ``cheats`` units no model made, passed by a blind validator."""
    order = await world.place(prompts)
    miner, blind = await world.node("miner"), await world.node("validator")
    for _ in range(cheats):
        await cheat(world, miner)
    await world.finish(miner, blind)
    await run_export(world, order, folder)
    order = await world.order(order)
    assert order.status == "completed"
    return order, miner, blind


async def distrust(world, node) -> None:
    async with world.store.write() as session:
        row = await session.get_one(Node, node.hotkey)
        row.distrusted_until_ms = world.now + world.policy.distrust_ms
        session.add(row)


async def bill_of(world, order):
    return (await bills(world.store, [order]))[order.id]


async def judge_all(world, *validators) -> int:
    """Let honest validators judge whatever waits for them; return how many results."""
    judged = 0
    for validator in validators:
        await world.announce(validator)
        while (lease := await world.lease_audit(validator)) is not None:
            votes = world.truth(lease)
            await world.judge(validator, lease, world.verdicts(validator, lease, votes))
            judged += 1
    return judged


async def balance_of(world):
    return (await balances(world.store, [world.account_id]))[world.account_id]


async def test_what_fails_is_given_back_and_told(world, chain, model_folder):
    order, miner, blind = await delivered(world, model_folder, cheats=1)
    before, letters = await bill_of(world, order), await record(world, miner)
    had, rows = await balance_of(world), await world.rows(Transfer)
    await distrust(world, blind)
    await attend(world, chain)
    # Validators that have loaded something else see that it waits.
    (demand,) = (await demand_board(world.store, world.policy, world.now)).demands
    assert (demand.waiting_samples, demand.waiting_audits) == (0, 4)
    assert demand.deadline * 1000 > world.now
    honest = await world.node("validator")
    assert await judge_all(world, honest) == 2
    assert (await demand_board(world.store, world.policy, world.now)).demands == []
    after = await bill_of(world, order)
    # Two samples of two ids each were no model's.
    assert (after.redress.samples, after.redress.tokens) == (2, 4)
    price = before.charged - after.charged
    assert 0 < price == after.redress.refunded == after.refunded - before.refunded
    shown = after.redress.members()
    assert (shown["samples_failed"], shown["tokens_failed"]) == (2, 4)
    (moved,) = [one for one in await world.rows(Transfer) if one not in rows]
    assert moved.id.startswith(f"refund:{order.id}:")
    assert (moved.debit_id, moved.amount_nano) == ("revenue", price)
    has = await balance_of(world)
    assert has.available == had.available + price
    assert has.credited == had.credited == has.available + has.reserved + has.charged
    report = await check(world.store)
    assert report.faults == []
    assert report.charged == after.charged
    # What was delivered stays as it was, and nobody's record changes.
    now = await world.order(order)
    assert now.model_dump() == order.model_dump()
    assert await record(world, miner) == letters
    (node,) = await world.rows(Node, col(Node.hotkey) == miner.hotkey)
    assert node.convicted_at_ms is None
    # Once and for all.
    await attend(world, chain)
    assert await judge_all(world, honest, await world.node("validator")) == 0
    assert await bill_of(world, order) == after
    assert len(await world.rows(Review, col(Review.delivered))) == 2
    await world.check()


async def test_the_public_record_tells(world, chain, model_folder):
    order, miner, blind = await delivered(world, model_folder, cheats=1)
    world.policy = replace(world.policy, epoch_ms=HOUR)
    await distrust(world, blind)
    await attend(world, chain)
    # A look that nobody can take yet holds up no record.
    world.now += HOUR
    await write_due(world.store, chain, world.keypair, world.policy, world.now)
    assert len(await world.rows(Epoch)) == 1
    honest = await world.node("validator")
    assert await judge_all(world, honest) == 2
    world.now += HOUR
    await write_due(world.store, chain, world.keypair, world.policy, world.now)
    first, second = sorted(await world.rows(Epoch), key=lambda row: row.number)
    statements = []
    for row in (first, second):
        content = await world.store.objects.get(row.object_key)
        read = EpochRecord.model_validate_json(content)
        assert read.encoded() == content and read.is_signed()
        statements.append(read.statement)
    assert "redress" not in statements[0].model_dump()
    assert sorted(entry.samples for entry in statements[1].redress) == [0, 2]
    bill = await bill_of(world, order)
    assert sum(entry.refunded_nano for entry in statements[1].redress) == bill.redress.refunded
    # It is no void of the miner's there either.
    assert all(entry.void == entry.verified == 0 for entry in statements[1].verdicts)
    assert miner.hotkey not in str(statements[1].redress)


async def test_all_of_it_failing_gives_all_of_it_back(world, chain, model_folder):
    order, _, blind = await delivered(world, model_folder, cheats=2)
    await distrust(world, blind)
    await attend(world, chain)
    assert await judge_all(world, await world.node("validator")) == 2
    bill = await bill_of(world, order)
    assert (bill.charged, bill.refunded, bill.redress.samples) == (0, bill.price, 4)
    await world.check()


async def test_honest_work_costs_what_it_cost(world, chain, model_folder):
    order, _, blind = await delivered(world, model_folder, cheats=0)
    before = await bill_of(world, order)
    await distrust(world, blind)
    await attend(world, chain)
    assert await judge_all(world, await world.node("validator")) == 2
    assert await bill_of(world, order) == before
    assert {row.ending for row in await world.rows(Review)} == {"agreed"}
    await world.check()


async def test_a_lone_void_is_asked_about_and_a_liar_found(world, chain, model_folder):
    """A validator that fails what is honest costs the house nothing where others live."""
    order, _, blind = await delivered(world, model_folder, cheats=0, prompts=PROMPTS[:2])
    before = await bill_of(world, order)
    await distrust(world, blind)
    await attend(world, chain)
    liar, *honest = [await world.node("validator") for _ in range(3)]
    assert await world.audit(liar, "void") is not None
    assert await bill_of(world, order) == before
    for validator in honest:
        assert await judge_all(world, validator) == 1
    assert await bill_of(world, order) == before
    assert await is_distrusted(world, liar)
    await world.check()


async def test_a_tie_and_a_third_that_never_comes_are_the_customers(world, chain, model_folder):
    order, _, blind = await delivered(world, model_folder, cheats=0, prompts=PROMPTS[:2])
    await distrust(world, blind)
    await attend(world, chain)
    first, _ = await world.node("validator"), await world.node("validator")
    await world.audit(first, "void")
    await attend(world, chain)
    assert (await bill_of(world, order)).redress is None
    world.now += world.policy.review_ms
    await attend(world, chain)
    assert (await bill_of(world, order)).charged == 0
    await world.check()


async def test_inconclusive_is_no_opinion(world, chain, model_folder):
    order, _, blind = await delivered(world, model_folder, cheats=1, prompts=PROMPTS[:2])
    await distrust(world, blind)
    await attend(world, chain)
    await world.audit(await world.node("validator"), "inconclusive")
    world.now += 2 * world.policy.review_ms
    await attend(world, chain)
    (review,) = await world.rows(Review)
    assert review.state == "open"
    assert await judge_all(world, await world.node("validator")) == 1
    assert (await bill_of(world, order)).redress.samples == 2


async def test_what_another_owner_shared_is_not_looked_at_again(world, chain, model_folder):
    world.policy = replace(world.policy, second_opinions=1.0)
    await world.place(PROMPTS[:2])
    miner, blind = await world.node("miner"), await world.node("validator")
    other = await world.node("validator")
    await world.generate(miner)
    await world.audit(blind)
    await attend(world, chain, blocks=2)
    assert await world.audit(other) is not None
    (order,) = [await world.order_of(row.order_id) for row in await world.rows(Review)]
    await run_export(world, order, model_folder)
    await distrust(world, blind)
    await attend(world, chain)
    assert await world.rows(Review, col(Review.delivered)) == []


async def test_it_waits_behind_what_is_to_be_delivered_but_not_for_ever(world, chain, model_folder):
    order, miner, blind = await delivered(world, model_folder, cheats=0)
    await distrust(world, blind)
    await attend(world, chain)
    fresh = await world.place([[9]] * 12)
    for _ in range(3):
        await world.generate(miner)
    honest = await world.node("validator")
    assert (await world.lease_audit(honest)).work.unit_id in await units_of(world, fresh)
    world.now += world.policy.review_ms
    await world.announce(honest)
    late = await world.lease_audit(honest)
    assert late.work.unit_id in await units_of(world, order)
    # The order's window may be over long ago.
    assert late.ends_at * 1000 > world.now


async def units_of(world, order) -> set[str]:
    return {row.unit_id for row in await world.rows(Verdict, col(Verdict.order_id) == order.id)} | {
        row.unit_id for row in await world.rows(Lease, col(Lease.order_id) == order.id)
    }
