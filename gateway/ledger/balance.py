"""What a customer has, and its statement of account."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlmodel import col, func, or_, select

from gateway.ledger.transfers import available_nano, customer_id
from gateway.store.engine import Store
from gateway.store.tables import LedgerAccount, Transfer, TransferKind


@dataclass(frozen=True)
class Balance:
    """A customer's money in nano-USD: credited = available + reserved + charged.

    Attributes:
        available: can be spent.
        reserved: is held for orders that have not ended.
        charged: was paid for orders that ended, and not given back.
        credited: was paid in.
    """

    available: int = 0
    reserved: int = 0
    charged: int = 0
    credited: int = 0


async def balances(store: Store, account_ids: Sequence[str]) -> dict[str, Balance]:
    """Return the balances of accounts by their ids."""
    statement = select(LedgerAccount).where(col(LedgerAccount.account_id).in_(account_ids))
    given_back = (
        select(Transfer.credit_id, func.sum(Transfer.amount_nano))
        .where(
            col(Transfer.kind) == TransferKind.REFUND,
            col(Transfer.credit_id).in_([customer_id(one) for one in account_ids]),
        )
        .group_by(col(Transfer.credit_id))
    )
    async with store.read() as session:
        rows = (await session.exec(statement)).all()
        refunds = {one: int(amount) for one, amount in (await session.exec(given_back)).all()}
    known = {row.account_id: _balance(row, refunds.get(row.id, 0)) for row in rows}
    # An account that was never topped up has no row.
    return {account_id: known.get(account_id, Balance()) for account_id in account_ids}


def _balance(row: LedgerAccount, refunded: int) -> Balance:
    return Balance(
        available_nano(row),
        row.debits_pending,
        row.debits_posted - refunded,
        row.credits_posted - refunded,
    )


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
