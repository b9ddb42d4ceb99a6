"""What each end of an order costs, and that placing reserves it or does nothing."""

import asyncio
import json

import pytest
from books import owed
from exports import run_export
from sqlmodel import col

from gateway.accounts import debit_account
from gateway.catalog import prices
from gateway.errors import GatewayError
from gateway.ledger.balance import balances
from gateway.ledger.charges import Bill, bills, price_of
from gateway.ledger.money import NANO, usd_of
from gateway.ledger.transfers import LedgerError
from gateway.orders import background, life
from gateway.orders.content import CONTENT, object_key
from gateway.orders.failing import note_failure
from gateway.orders.placing import Placement, place
from gateway.orders.policy import HOUR
from gateway.store.tables import Dialect, Order, Transfer, Verdict, new_id
from protocol.repository import RepositoryError

PROMPTS = [[place] for place in range(1, 13)]


async def bill_of(world, order) -> Bill:
    return (await bills(world.store, [await world.order(order)]))[order.id]


async def available(world) -> int:
    return (await balances(world.store, [world.account_id]))[world.account_id].available


async def refused(answer) -> GatewayError:
    with pytest.raises(GatewayError) as error:
        await answer
    return error.value


async def tokens_verified(world, order) -> int:
    rows = await world.rows(Verdict, col(Verdict.order_id) == order.id)
    return sum(row.tokens for row in rows)


async def test_the_quote_is_what_is_reserved_and_held(sqlite_world):
    world = sqlite_world
    quoted = world.quote(PROMPTS, n=2).price
    before = await available(world)
    order = await world.place(PROMPTS, n=2)
    (held,) = await world.rows(Transfer, col(Transfer.order_id) == order.id)
    assert (held.id, held.amount_nano) == (f"hold:{order.id}", quoted.reserved)
    assert await available(world) == before - quoted.reserved
    assert await bill_of(world, order) == Bill(quoted.reserved, 0, None)


async def test_a_verified_order_is_charged_for_its_tokens(world, model_folder):
    order = await world.place(PROMPTS, n=2)
    before = await available(world)
    await world.finish(await world.node("miner"), await world.node("validator"))
    price = price_of(order)
    tokens = (await world.order(order)).tokens_verified
    # What it comes to is shown before it is charged.
    assert await bill_of(world, order) == Bill(price.reserved, price.charge(tokens), None)
    await run_export(world, order, model_folder)
    ended = await world.order(order)
    bill = await bill_of(world, order)
    assert ended.status == "completed"
    assert 0 < tokens < price.most_tokens
    assert bill.charged == price.charge(tokens) == owed(ended, await tokens_verified(world, order))
    assert bill.refunded == bill.price - bill.charged > 0
    assert await available(world) == before + bill.refunded
    assert bill.members() == {
        "price_usd": usd_of(bill.price),
        "charged_usd": usd_of(bill.charged),
        "refunded_usd": usd_of(bill.refunded),
    }


async def test_an_order_that_verified_nothing_is_free(sqlite_world, model_folder):
    """Whoever got nothing pays nothing, GPU time and prompt tokens included."""
    world = sqlite_world
    order = await world.place(PROMPTS, n=2)
    await world.lease(await world.node("miner"))
    world.now += 25 * HOUR
    await background.end_orders(world.store, world.policy, lambda: world.now / 1000)
    await run_export(world, order, model_folder)
    bill = await bill_of(world, order)
    assert (await world.order(order)).status == "expired"
    assert (bill.charged, bill.refunded) == (0, price_of(order).reserved)


async def test_an_order_that_never_started_is_free(world, model_folder):
    before = await available(world)
    cancelled, expired = await world.place(PROMPTS), await world.place(PROMPTS)
    await life.cancel(world.store, world.account_id, cancelled.id, world.now)
    world.now += 25 * HOUR
    await background.end_orders(world.store, world.policy, lambda: world.now / 1000)
    for order, status in ((cancelled, "cancelled"), (expired, "expired")):
        await run_export(world, order, model_folder)
        bill = await bill_of(world, order)
        assert (await world.order(order)).status == status
        assert (bill.charged, bill.refunded) == (0, bill.price)
    assert await available(world) == before


async def test_a_cancelled_order_is_charged_for_what_was_verified(sqlite_world, model_folder):
    world = sqlite_world
    order = await world.place(PROMPTS)
    await world.generate(await world.node("miner"))
    await world.audit(await world.node("validator"))
    await life.cancel(world.store, world.account_id, order.id, world.now)
    world.now += world.policy.cancel_grace_ms
    await background.end_orders(world.store, world.policy, lambda: world.now / 1000)
    await run_export(world, order, model_folder)
    ended = await world.order(order)
    tokens = await tokens_verified(world, order)
    assert (ended.status, tokens > 0) == ("cancelled", True)
    assert (await bill_of(world, order)).charged == owed(ended, tokens)


async def test_what_an_order_holds_is_not_taken_back(sqlite_world, model_folder):
    world = sqlite_world
    order = await world.place(PROMPTS)
    held = price_of(order).reserved
    left = await available(world)
    with pytest.raises(LedgerError, match="nor held"):
        await debit_account(world.store, world.account_id, left + 1, "all", world.now)
    await debit_account(world.store, world.account_id, left, "all", world.now)
    assert await available(world) == 0
    await world.finish(await world.node("miner"), await world.node("validator"))
    await run_export(world, order, model_folder)
    charged = (await bill_of(world, order)).charged
    assert await available(world) == held - charged
    known = (await balances(world.store, [world.account_id]))[world.account_id]
    assert (known.credited, known.charged) == (held, charged)


async def test_an_order_that_failed_is_free(sqlite_world):
    world = sqlite_world
    before = await available(world)
    order = await world.place(PROMPTS)
    await world.finish(await world.node("miner"), await world.node("validator"))
    for _ in range(world.policy.export_tries):
        gone = RepositoryError("the commit is gone")
        await note_failure(world.store, order.id, None, gone, world.folder, world.policy, world.now)
    assert (await world.order(order)).status == "failed"
    assert (await bill_of(world, order)).charged == 0
    assert await available(world) == before


async def test_what_was_void_is_not_charged(sqlite_world, model_folder):
    world = sqlite_world
    order = await world.place([[1], [2], [3], [4]])
    await world.generate(await world.node("miner"))
    await world.audit(await world.node("validator"), ["verified", "void", "void", "void"])
    world.now += 25 * HOUR
    await background.end_orders(world.store, world.policy, lambda: world.now / 1000)
    await run_export(world, order, model_folder)
    ended = await world.order(order)
    assert ended.samples_verified == 1
    assert (await bill_of(world, order)).charged == owed(ended, ended.tokens_verified)


@pytest.mark.parametrize("above", [0, 1])
async def test_a_ceiling_holds_to_the_nano_dollar(sqlite_world, above: int):
    world = sqlite_world
    quote = world.quote(PROMPTS)
    ceiling = usd_of(quote.price.reserved - above)
    placement = Placement(
        input_file_id="file-x",
        dialect=Dialect.OPENAI,
        completion_window_hours=24,
        metadata={"max_price_usd": ceiling},
        idempotency_key=None,
        body_sha256="00",
        drawn_seed=1,
    )
    world.inputs.clear()
    placing = place(world.store, world.account_id, quote, placement, world.policy, world.now)
    if not above:
        await placing
        return
    before = await available(world)
    error = await refused(placing)
    assert (error.status, error.code) == (402, "price_above_max")
    assert error.param == "metadata.max_price_usd"
    assert await available(world) == before
    assert await world.rows(Order) == []


async def test_a_balance_below_the_price_places_nothing(sqlite_world):
    world = sqlite_world
    price = world.quote(PROMPTS).price
    await world.open_account("poor", usd=usd_of(price.reserved - 1))
    error = await refused(world.place(PROMPTS, account_id="poor"))
    assert (error.status, error.code) == (402, "insufficient_balance")
    assert usd_of(price.reserved) in error.message
    assert await world.rows(Order) == []
    await world.open_account("penniless", usd=None)
    error = await refused(world.place(PROMPTS, account_id="penniless"))
    assert (error.status, error.code) == (402, "insufficient_balance")


async def test_orders_at_once_never_pass_the_balance(world):
    price = world.quote(PROMPTS).price
    await world.open_account("poor", usd=usd_of(2 * price.reserved))
    places = [world.place(PROMPTS, account_id="poor") for _ in range(5)]
    answers = await asyncio.gather(*places, return_exceptions=True)
    assert sum(isinstance(answer, Order) for answer in answers) == 2
    left = (await balances(world.store, ["poor"]))["poor"]
    assert (left.available, left.reserved) == (0, 2 * price.reserved)


async def test_an_order_keeps_the_price_that_it_was_quoted(sqlite_world, model_folder, monkeypatch):
    world = sqlite_world
    order = await world.place(PROMPTS)
    dear = prices.load_prices().model_copy(update={"minimum_usd": 1_000 * NANO, "version": "dear"})
    monkeypatch.setattr("made_quotes.load_prices", lambda: dear)
    later = await world.place(PROMPTS)
    await world.finish(await world.node("miner"), await world.node("validator"))
    for one in (order, later):
        await run_export(world, one, model_folder)
    assert json.loads(order.price_json)["version"] == prices.load_prices().version
    assert (await bill_of(world, order)).price == world_price(order)
    assert (await bill_of(world, order)).charged < 3 * NANO
    assert (await bill_of(world, later)).charged == 1_000 * NANO


def world_price(order: Order) -> int:
    price = price_of(order)
    assert price is not None
    return price.total(order.samples_total * order.max_tokens)


async def test_an_order_from_before_there_were_prices_ends_free(sqlite_world, model_folder):
    """As a migrated database has it: no price, no hold."""
    world = sqlite_world
    order = await world.place(PROMPTS)
    async with world.store.write() as session:
        old = Order(**{**order.model_dump(), "id": new_id(), "price_json": None})
        session.add(old)
    for name in CONTENT:
        content = await world.store.objects.get(object_key(order.id, name))
        await world.store.objects.put(object_key(old.id, name), content)
    await life.cancel(world.store, world.account_id, old.id, world.now)
    await run_export(world, old, model_folder)
    assert await bill_of(world, old) == Bill(0, 0, 0)
