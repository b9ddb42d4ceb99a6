"""Placing orders: limits, seeds, idempotency; reading and listing them."""

import asyncio
from pathlib import Path

import numpy as np
import pytest
from exports import run_export
from sqlmodel import col

from gateway.errors import GatewayError
from gateway.orders import life, reading
from gateway.orders.content import CONTENT, FIRST_SAMPLES, object_key
from gateway.orders.placing import find_idempotent
from gateway.store.tables import Order

KEY = "a-key-of-sixteen-letters"


async def test_an_order_holds_what_was_quoted(world):
    order = await world.order(await world.place([[1, 2], [3], [1, 2]], n=2, refused=1, seed=None))
    assert (order.lines_total, order.lines_refused, order.lines_usable) == (4, 1, 3)
    assert (order.samples_total, order.prompt_tokens, order.longest_prompt) == (6, 5, 2)
    assert (order.seed, order.seed_drawn, order.status) == (4_242, True, "validating")
    assert order.expires_at_ms == world.now + 24 * 3_600_000
    firsts = await world.store.objects.get(object_key(order.id, FIRST_SAMPLES))
    assert np.frombuffer(firsts, dtype="<u4").tolist() == [0, 0, 2]


async def test_a_seed_of_the_file_is_kept(world):
    order = await world.place(seed=2**53 - 1)
    assert (order.seed, order.seed_drawn) == (2**53 - 1, False)


async def test_a_sixth_open_order_is_refused_for_good(world, tmp_path: Path):
    for _ in range(5):
        order = await world.place()
    with pytest.raises(GatewayError) as refusal:
        await world.place()
    assert (refusal.value.status, refusal.value.code) == (429, "order_limit")
    assert refusal.value.final
    other = await world.open_account("other")
    await world.place(account_id=other)
    await life.cancel(world.store, world.account_id, order.id, world.now)
    assert await run_export(world, order, tmp_path)
    await world.place()


async def test_the_limit_holds_under_concurrency(world):
    placed = await asyncio.gather(*(world.place() for _ in range(12)), return_exceptions=True)
    assert sum(isinstance(outcome, Order) for outcome in placed) == 5
    assert len(await world.rows(Order)) == 5


async def test_a_refused_order_leaves_no_objects(sqlite_world):
    world = sqlite_world
    for _ in range(5):
        await world.place()
    with pytest.raises(GatewayError):
        await world.place()
    folders = [path for path in (world.folder / "objects/orders").iterdir() if any(path.iterdir())]
    assert len(folders) == 5
    assert {path.name for path in folders[0].iterdir()} == set(CONTENT)


async def test_a_repeated_request_gets_the_first_order(world):
    first = await world.place(key=KEY)
    again = await world.place(key=KEY)
    assert again.id == first.id
    found = await find_idempotent(world.store, world.account_id, KEY, "00")
    assert found is not None and found.id == first.id
    with pytest.raises(GatewayError) as conflict:
        await world.place(key=KEY, body="01")
    assert (conflict.value.status, conflict.value.code) == (409, "idempotency_conflict")
    assert conflict.value.final
    other = await world.open_account("other")
    assert (await world.place(key=KEY, account_id=other)).id != first.id
    assert await find_idempotent(world.store, world.account_id, "other-" + KEY, "00") is None


async def test_twins_at_once_make_one_order(world):
    twins = await asyncio.gather(*(world.place(key=KEY) for _ in range(8)))
    assert len({order.id for order in twins}) == 1
    assert len(await world.rows(Order)) == 1


async def test_another_accounts_order_is_as_unknown(world):
    order = await world.place()
    await world.open_account("other")
    for account_id, order_id in (("other", order.id), (world.account_id, "nothing")):
        for call in (
            reading.get_order(world.store, account_id, order_id),
            life.cancel(world.store, account_id, order_id, world.now),
        ):
            with pytest.raises(GatewayError) as error:
                await call
            assert (error.value.status, error.value.code) == (404, "batch_not_found")


async def test_lists_page_newest_first(world):
    orders = []
    for step in (0, 1, 1, 2):
        world.now += step
        orders.append((await world.place()).id)
    async with world.store.read():
        rows = await world.rows(Order, col(Order.account_id) == world.account_id)
    expected = [row.id for row in sorted(rows, key=lambda r: (r.created_at_ms, r.id), reverse=True)]
    pages, after = [], None
    while True:
        page, more = await reading.list_orders(world.store, world.account_id, 2, after)
        pages += [row.id for row in page]
        if not more:
            break
        after = page[-1].id
    assert pages == expected and set(pages) == set(orders)
    full, more = await reading.list_orders(world.store, world.account_id, 4, None)
    assert (len(full), more) == (4, False)


async def test_a_foreign_cursor_is_refused(world):
    order = await world.place()
    await world.open_account("other")
    for account_id, cursor in (("other", order.id), (world.account_id, "nothing")):
        with pytest.raises(GatewayError) as error:
            await reading.list_orders(world.store, account_id, 2, cursor)
        assert (error.value.status, error.value.code) == (400, "invalid_request")
        assert error.value.param == "after"
