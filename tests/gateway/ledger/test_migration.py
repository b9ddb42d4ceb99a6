"""A database from before the ledger: its orders end as they would have, and cost nothing."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from alembic import command
from alembic.config import Config
from books import check_money
from sqlalchemy import Connection, MetaData, Table, create_engine, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError
from sqlmodel import col, select

from gateway.accounts import credit_account
from gateway.ledger.balance import Balance, balances
from gateway.ledger.charges import Bill, bills
from gateway.orders import life
from gateway.store.engine import Store
from gateway.store.migrate import SCRIPTS
from gateway.store.objects import open_objects
from gateway.store.tables import Account, Order, Transfer

BEFORE = "0006"
BEFORE_REFUNDS = "0013"
NOW = 1_762_685_000_000
LINES = {"lines_usable": 1, "samples_total": 1, "n": 1}


def fill(connection: Connection, table: str, **values: Any) -> None:
    """Insert a row, with an empty text or 0 in every column that needs a value and gets none."""
    reflected = Table(table, MetaData(), autoload_with=connection)
    row = {
        column.name: "" if column.type.python_type is str else 0
        for column in reflected.columns
        if not column.nullable
    }
    connection.execute(reflected.insert().values(row | values))


@contextmanager
def as_it_was(database: str, version: str) -> Iterator[Connection]:
    """Make a database of an earlier version, to be filled in the block."""
    kind = make_url(database).get_backend_name()
    driver = "sqlite" if kind == "sqlite" else "postgresql+psycopg"
    engine = create_engine(make_url(database).set(drivername=driver))
    config = Config()
    config.set_main_option("script_location", str(SCRIPTS))
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, version)
        yield connection
    engine.dispose()


def make_old(database: str) -> None:
    """Make a database as it was, with a customer who has an order."""
    with as_it_was(database, BEFORE) as connection:
        fill(connection, "accounts", id="old", name="old", state="open")
        order = {"id": "order", "account_id": "old", "dialect": "openai", "status": "validating"}
        flags = {"seed_drawn": False, "expires_at_ms": NOW}
        fill(connection, "orders", **order, **flags, **LINES)


def make_traded(database: str) -> None:
    """Make a database as it was, with a customer who paid for an order."""
    with as_it_was(database, BEFORE_REFUNDS) as connection:
        fill(connection, "accounts", id="old", name="old", state="open")
        order = {"id": "order", "account_id": "old", "dialect": "openai", "status": "completed"}
        fill(connection, "orders", **order, seed_drawn=False, **LINES)
        mine = "customer:old"
        paid = {"credits_posted": 10, "debits_posted": 5}
        fill(connection, "ledger_accounts", id=mine, kind="customer", account_id="old", **paid)
        sides = {"debit_id": mine, "credit_id": "revenue", "order_id": "order"}
        fill(connection, "transfers", id="hold:order", kind="hold", amount_nano=9, **sides)
        ends = {"hold_id": "hold:order", "held_nano": 9, "amount_nano": 5}
        fill(connection, "transfers", id="capture:order", kind="capture", **ends, **sides)


async def test_an_old_order_is_free_and_its_customer_can_be_topped_up(database: str, tmp_path):
    make_old(database)
    store = await Store.open(database, open_objects(f"file://{tmp_path}/objects"))
    async with store.read() as session:
        order = await session.get_one(Order, "order")
        account = await session.get_one(Account, "old")
    assert await bills(store, [order]) == {"order": Bill(0, 0, None)}
    await check_money(store)
    await life.cancel(store, account.id, order.id, NOW)
    await credit_account(store, account.name, 7, "first", NOW)
    assert await balances(store, ["old"]) == {"old": Balance(7, 0, 0, 7)}
    assert await check_money(store) == {}
    await store.close()


async def test_the_books_of_a_gateway_that_traded_are_carried_over(empty_database: str, tmp_path):
    make_traded(empty_database)
    store = await Store.open(empty_database, open_objects(f"file://{tmp_path}/objects"))
    async with store.read() as session:
        moved = (await session.exec(select(Transfer).order_by(col(Transfer.id)))).all()
    assert [(one.id, one.amount_nano, one.hold_id) for one in moved] == [
        ("capture:order", 5, "hold:order"), ("hold:order", 9, None),
    ]  # fmt: skip
    for change in (
        "UPDATE transfers SET amount_nano = 4",
        "DELETE FROM transfers",
        "INSERT INTO transfers SELECT 'void:x', 'void', debit_id, credit_id, 0, order_id,"
        " 'hold:x', 9, 0 FROM transfers WHERE id = 'hold:order'",
    ):
        with pytest.raises(DBAPIError):
            async with store.write() as session:
                await session.exec(text(change))
    await store.close()
