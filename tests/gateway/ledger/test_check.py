"""``ledger check`` names whatever is off."""

from dataclasses import replace
from typing import Any

import pytest
from exports import run_export
from sqlmodel import col, select

from gateway.ledger.check import Books, examine
from gateway.store.tables import LedgerAccount, Order, Transfer, Verdict

PROMPTS = [[place] for place in range(1, 5)]


@pytest.fixture
async def books(sqlite_world, model_folder) -> Books:
    """The books over an order that was delivered and one that waits."""
    world = sqlite_world
    done = await world.place(PROMPTS)
    await world.finish(await world.node("miner"), await world.node("validator"))
    await run_export(world, done, model_folder)
    await world.place(PROMPTS)
    async with world.store.read() as session:
        accounts = (await session.exec(select(LedgerAccount))).all()
        transfers = (await session.exec(select(Transfer).order_by(col(Transfer.id)))).all()
        orders = (await session.exec(select(Order).order_by(col(Order.created_at_ms)))).all()
        verdicts = (await session.exec(select(Verdict))).all()
    tokens = {done.id: sum(verdict.tokens for verdict in verdicts)}
    return Books(accounts, transfers, sorted(orders, key=lambda one: one.id != done.id), tokens, {})


def changed(books: Books, kind: str, place: int, **values: Any) -> Books:
    rows = [row.model_copy() for row in getattr(books, kind)]
    for name, value in values.items():
        setattr(rows[place], name, value)
    return replace(books, **{kind: rows})


def place_of(books: Books, kind: str, start: str) -> int:
    return next(at for at, row in enumerate(getattr(books, kind)) if row.id.startswith(start))


async def test_right_books_are_told_in_figures(books: Books):
    report = examine(books)
    assert report.faults == []
    assert (report.accounts, report.transfers, report.orders) == (1, 4, 2)
    assert report.credited == 10**15
    assert 0 < report.charged < 2 * 10**9
    assert 0 < report.reserved < 2 * 10**9


@pytest.mark.parametrize(
    ("kind", "row", "values", "said"),
    [
        (
            "accounts",
            "customer",
            {"debits_posted": 1},
            "debits_posted is 1 nano-USD, its",
        ),
        ("accounts", "revenue", {"credits_pending": 0}, "all debits pending come to"),
        ("transfers", "capture", {"amount_nano": 5}, "0.000000005 USD were charged by capture:"),
        ("transfers", "capture", {"amount_nano": 10**15}, "charges more than its hold"),
        ("transfers", "capture", {"debit_id": "cash"}, "moves between other accounts"),
        ("transfers", "capture", {"hold_id": "hold:x"}, "ends hold:x, which is no hold"),
        ("transfers", "top_up", {"amount_nano": 5}, "account customer:account is overdrawn"),
        (
            "transfers",
            "hold",
            {"debit_id": "customer:x"},
            "account customer:x has transfers and",
        ),
        ("transfers", "hold", {"amount_nano": 7}, "0.000000007 USD were held, the price that"),
        ("orders", 0, {"tokens_verified": 1}, "tokens_verified is 1, its verdicts come to"),
        ("orders", 0, {"status": "in_progress"}, "is in_progress, and its hold has ended as"),
        ("orders", 0, {"status": "failed"}, "its verdicts come to 0.00 USD"),
        ("orders", 0, {"price_json": None}, "has a hold alone"),
        ("orders", 0, {"price_json": "{}"}, "its price_json cannot be read"),
        ("orders", 0, {"account_id": "x"}, "customer:account pays, and is not its account"),
        ("orders", 1, {"status": "cancelled"}, "is cancelled, and "),
        ("orders", 1, {"id": "x"}, "there is no such order"),
    ],
)
async def test_each_fault_is_named(
    books: Books, kind: str, row: str | int, values: dict[str, Any], said: str
):
    place = row if isinstance(row, int) else place_of(books, kind, row)
    faults = examine(changed(books, kind, place, **values)).faults
    assert any(said in fault for fault in faults), faults


async def test_more_tokens_than_verdicts_are_told(books: Books):
    more = {order_id: tokens + 1 for order_id, tokens in books.tokens.items()}
    assert len(examine(replace(books, tokens=more)).faults) == 2


async def test_an_end_that_came_twice_is_told(books: Books):
    (capture,) = [one for one in books.transfers if one.kind == "capture"]
    twice = [*books.transfers, capture.model_copy(update={"id": "void:x"})]
    report = examine(replace(books, transfers=twice))
    assert any("ended 2 times" in fault for fault in report.faults)
