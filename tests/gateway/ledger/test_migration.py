"""A database from before the ledger: its orders end as they would have, and cost nothing."""

from typing import Any

from alembic import command
from alembic.config import Config
from books import check_money
from sqlalchemy import Connection, MetaData, Table, create_engine
from sqlalchemy.engine import make_url

from gateway.accounts import credit_account
from gateway.ledger.balance import Balance, balances
from gateway.ledger.charges import Bill, bills
from gateway.orders import life
from gateway.store.engine import Store
from gateway.store.migrate import SCRIPTS
from gateway.store.objects import open_objects
from gateway.store.tables import Account, Order

BEFORE = "0006"
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


def make_old(database: str) -> None:
    """Make a database as it was, with a customer who has an order."""
    kind = make_url(database).get_backend_name()
    driver = "sqlite" if kind == "sqlite" else "postgresql+psycopg"
    engine = create_engine(make_url(database).set(drivername=driver))
    config = Config()
    config.set_main_option("script_location", str(SCRIPTS))
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, BEFORE)
        fill(connection, "accounts", id="old", name="old", state="open")
        order = {"id": "order", "account_id": "old", "dialect": "openai", "status": "validating"}
        flags = {"seed_drawn": False, "expires_at_ms": NOW}
        fill(connection, "orders", **order, **flags, **LINES)
    engine.dispose()


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
