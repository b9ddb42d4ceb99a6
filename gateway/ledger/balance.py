"""What a customer has, and its statement of account."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Mapped
from sqlmodel import col, func, or_, select
from sqlmodel.ext.asyncio.session import AsyncSession

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
        credited: was paid in, and not taken back.
    """

    available: int = 0
    reserved: int = 0
    charged: int = 0
    credited: int = 0


async def balances(store: Store, account_ids: Sequence[str]) -> dict[str, Balance]:
    """Return the balances of accounts by their ids."""
    statement = select(LedgerAccount).where(col(LedgerAccount.account_id).in_(account_ids))
    mine = [customer_id(one) for one in account_ids]
    async with store.read() as session:
        rows = (await session.exec(statement)).all()
        refunds = await _sums(session, TransferKind.REFUND, col(Transfer.credit_id), mine)
        taken = await _sums(session, TransferKind.WITHDRAWAL, col(Transfer.debit_id), mine)
    known = {
        row.account_id: _balance(row, refunds.get(row.id, 0), taken.get(row.id, 0)) for row in rows
    }
    # An account that was never topped up has no row.
    return {account_id: known.get(account_id, Balance()) for account_id in account_ids}


async def _sums(
    session: AsyncSession, kind: TransferKind, side: Mapped[str], mine: Sequence[str]
) -> dict[str, int]:
    """Add the transfers of a kind up, by the customer's account on their ``side``."""
    statement = (
        select(side, func.sum(Transfer.amount_nano))
        .where(col(Transfer.kind) == kind, side.in_(mine))
        .group_by(side)
    )
    return {one: int(amount) for one, amount in (await session.exec(statement)).all()}


def _balance(row: LedgerAccount, refunded: int, taken: int) -> Balance:
    return Balance(
        available_nano(row),
        row.debits_pending,
        row.debits_posted - refunded - taken,
        row.credits_posted - refunded - taken,
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
