"""What a customer has, and its statement of account."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlmodel import col, or_, select

from gateway.ledger.transfers import available_nano, customer_id
from gateway.store.engine import Store
from gateway.store.tables import LedgerAccount, Transfer


@dataclass(frozen=True)
class Balance:
    """A customer's money in nano-USD: credited = available + reserved + charged.

    Attributes:
        available: can be spent.
        reserved: is held for orders that have not ended.
        charged: was paid for orders that ended.
        credited: was paid in.
    """

    available: int = 0
    reserved: int = 0
    charged: int = 0
    credited: int = 0


async def balances(store: Store, account_ids: Sequence[str]) -> dict[str, Balance]:
    """Return the balances of accounts by their ids."""
    statement = select(LedgerAccount).where(col(LedgerAccount.account_id).in_(account_ids))
    async with store.read() as session:
        rows = (await session.exec(statement)).all()
    known = {
        row.account_id: Balance(
            available_nano(row), row.debits_pending, row.debits_posted, row.credits_posted
        )
        for row in rows
    }
    # An account that was never topped up has no row.
    return {account_id: known.get(account_id, Balance()) for account_id in account_ids}


async def latest_transfers(store: Store, account_id: str, limit: int) -> Sequence[Transfer]:
    """Return the last transfers of a customer, newest first."""
    mine = customer_id(account_id)
    statement = (
        select(Transfer)
        .where(or_(col(Transfer.debit_id) == mine, col(Transfer.credit_id) == mine))
        .order_by(col(Transfer.created_at_ms).desc(), col(Transfer.id))
        .limit(limit)
    )
    async with store.read() as session:
        return (await session.exec(statement)).all()
