"""The database judges: what the code never writes, it refuses too."""

import pytest
from sqlalchemy.exc import DatabaseError, IntegrityError
from sqlmodel import delete, update

from gateway.ledger.transfers import customer_id
from gateway.store.tables import LedgerAccount, Transfer

HELD = {"debit_id": "customer:account", "credit_id": "revenue", "created_at_ms": 1}


async def refused(world, row: Transfer | LedgerAccount) -> None:
    with pytest.raises(IntegrityError):
        async with world.store.write() as session:
            session.add(row)


def ending(order, held: Transfer, kind: str, **changes) -> Transfer:
    fields = {
        "id": f"{kind}:{order.id}",
        "kind": kind,
        "amount_nano": 0 if kind == "void" else held.amount_nano,
        "order_id": order.id,
        "hold_id": held.id,
        "held_nano": held.amount_nano,
        **HELD,
    }
    return Transfer(**{**fields, **changes})


async def test_a_transfer_never_changes(world):
    for act in (update(Transfer).values(amount_nano=1), delete(Transfer)):
        with pytest.raises(DatabaseError, match="transfers are immutable"):
            async with world.store.write() as session:
                await session.exec(act)


async def test_an_overdraft_is_refused(world):
    wrong = update(LedgerAccount).where(LedgerAccount.id == customer_id("account"))
    for column in ("debits_pending", "debits_posted"):
        with pytest.raises(IntegrityError):
            async with world.store.write() as session:
                await session.exec(wrong.values({column: LedgerAccount.credits_posted + 1}))
    with pytest.raises(IntegrityError):
        async with world.store.write() as session:
            await session.exec(wrong.values(credits_posted=-1))


async def test_a_hold_ends_once_and_as_what_it_is(world):
    order = await world.place()
    (held,) = await world.rows(Transfer, Transfer.kind == "hold")
    for wrong in (
        ending(order, held, "capture", amount_nano=held.amount_nano + 1),
        ending(order, held, "capture", held_nano=held.amount_nano + 1),
        ending(order, held, "capture", amount_nano=0),
        ending(order, held, "void", amount_nano=1),
        ending(order, held, "void", hold_id=None, held_nano=None),
        ending(order, held, "capture", debit_id="cash"),
        ending(order, held, "capture", id="capture:other"),
        ending(order, held, "capture", order_id=None),
        ending(order, held, "refund"),
    ):
        await refused(world, wrong)
    async with world.store.write() as session:
        session.add(ending(order, held, "void"))
    await refused(world, ending(order, held, "capture"))
    # Ended by hand, without the sums.
    world.settles = False


async def test_a_customer_has_one_account_of_the_ledger(world):
    await refused(world, LedgerAccount(id="x", kind="customer", account_id="account"))
    await refused(world, LedgerAccount(id="x", kind="customer"))
    await refused(world, LedgerAccount(id="x", kind="revenue", account_id="account"))
    await refused(world, LedgerAccount(id="x", kind="bank"))
