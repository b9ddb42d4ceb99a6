"""The only ways in which money moves: top up, withdraw, hold, capture, void, refund.

Each is one immutable row whose id follows from what caused it, so that a repeat finds the row of
the first time and changes nothing. The two accounts' rows are locked before they change, the
customer's first; the caller's transaction decides when it shows.
"""

from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from gateway.errors import GatewayError
from gateway.ledger.money import MAX_NANO, usd_of
from gateway.store.tables import LedgerAccount, LedgerKind, Transfer, TransferKind

CASH, REVENUE = LedgerKind.CASH, LedgerKind.REVENUE


class LedgerError(ValueError):
    """A transfer cannot be; the message says why."""


def customer_id(account_id: str) -> str:
    """Return the id of a customer's account of the ledger."""
    return f"{LedgerKind.CUSTOMER}:{account_id}"


def transfer_id(kind: TransferKind, cause: str) -> str:
    """Return the id of a transfer that an order, or a payment of a customer, caused."""
    return f"{kind}:{cause}"


def available_nano(account: LedgerAccount) -> int:
    """Return what a customer can spend: what is neither charged nor held."""
    return account.credits_posted - account.debits_posted - account.debits_pending


async def top_up(
    session: AsyncSession, account_id: str, amount_nano: int, cause: str, now_ms: int
) -> Transfer:
    """Credit a customer, whose account the caller has locked.

    Args:
        cause: the operator's own id of the payment.

    Raises:
        LedgerError: the amount is 0 or too much, or another payment had this id.
    """
    if amount_nano <= 0:
        raise LedgerError("a top-up is more than 0 USD")
    wanted = Transfer(
        id=transfer_id(TransferKind.TOP_UP, cause),
        kind=TransferKind.TOP_UP,
        debit_id=CASH,
        credit_id=customer_id(account_id),
        amount_nano=amount_nano,
        created_at_ms=now_ms,
    )
    if await session.get(LedgerAccount, wanted.credit_id) is None:
        session.add(
            LedgerAccount(id=wanted.credit_id, kind=LedgerKind.CUSTOMER, account_id=account_id)
        )
        await session.flush()
    customer, cash = await _lock(session, wanted.credit_id), await _lock(session, CASH)
    first = await session.get(Transfer, wanted.id)
    if first is not None:
        return _checked(first, wanted)
    cash.debits_posted += amount_nano
    customer.credits_posted += amount_nano
    return await _write(session, wanted, customer, cash)


async def withdraw(
    session: AsyncSession, account_id: str, amount_nano: int, cause: str, now_ms: int
) -> Transfer:
    """Take back of what a customer, whose account the caller has locked, paid in or was given.

    Args:
        cause: the operator's own id of it.

    Raises:
        LedgerError: the amount is 0 or more than the customer can spend, or another withdrawal had
            this id.
    """
    if amount_nano <= 0:
        raise LedgerError("a debit is more than 0 USD")
    wanted = Transfer(
        id=transfer_id(TransferKind.WITHDRAWAL, cause),
        kind=TransferKind.WITHDRAWAL,
        debit_id=customer_id(account_id),
        credit_id=CASH,
        amount_nano=amount_nano,
        created_at_ms=now_ms,
    )
    if await session.get(LedgerAccount, wanted.debit_id) is None:
        raise LedgerError("the account was never topped up")
    customer, cash = await _lock(session, wanted.debit_id), await _lock(session, CASH)
    first = await session.get(Transfer, wanted.id)
    if first is not None:
        return _checked(first, wanted)
    available = available_nano(customer)
    if amount_nano > available:
        raise LedgerError(
            f"{usd_of(available)} USD of the account are neither charged nor held for open "
            f"orders, less than {usd_of(amount_nano)} USD"
        )
    customer.debits_posted += amount_nano
    cash.credits_posted += amount_nano
    return await _write(session, wanted, customer, cash)


async def hold(
    session: AsyncSession, account_id: str, order_id: str, amount_nano: int, now_ms: int
) -> Transfer:
    """Set aside what an order may come to; the order's row is there, its account locked.

    Raises:
        GatewayError: 402 ``insufficient_balance``.
        LedgerError: the order holds another amount already.
    """
    wanted = Transfer(
        id=transfer_id(TransferKind.HOLD, order_id),
        kind=TransferKind.HOLD,
        debit_id=customer_id(account_id),
        credit_id=REVENUE,
        amount_nano=amount_nano,
        order_id=order_id,
        created_at_ms=now_ms,
    )
    if await session.get(LedgerAccount, wanted.debit_id) is None:
        raise _insufficient(amount_nano, 0)
    customer = await _lock(session, wanted.debit_id)
    first = await session.get(Transfer, wanted.id)
    if first is not None:
        return _checked(first, wanted)
    available = available_nano(customer)
    if amount_nano > available:
        raise _insufficient(amount_nano, available)
    revenue = await _lock(session, REVENUE)
    customer.debits_pending += amount_nano
    revenue.credits_pending += amount_nano
    return await _write(session, wanted, customer, revenue)


async def capture(session: AsyncSession, order_id: str, amount_nano: int, now_ms: int) -> Transfer:
    """End an order's hold: charge a part of it, or all, and give the rest back.

    Raises:
        LedgerError: nothing or too little is held, or the hold ended otherwise before.
    """
    return await _resolve(session, TransferKind.CAPTURE, order_id, amount_nano, now_ms)


async def void(session: AsyncSession, order_id: str, now_ms: int) -> Transfer:
    """End an order's hold and give all of it back.

    Raises:
        LedgerError: nothing is held, or a part of it was charged before.
    """
    return await _resolve(session, TransferKind.VOID, order_id, 0, now_ms)


async def refund(
    session: AsyncSession,
    account_id: str,
    order_id: str,
    amount_nano: int,
    cause: str,
    now_ms: int,
) -> Transfer:
    """Give back a part of what an ended order was charged.

    Args:
        cause: the id of the review that found delivered samples to fail.

    Raises:
        LedgerError: the order was not charged as much, or this cause gave back another amount.
    """
    wanted = Transfer(
        id=transfer_id(TransferKind.REFUND, f"{order_id}:{cause}"),
        kind=TransferKind.REFUND,
        debit_id=REVENUE,
        credit_id=customer_id(account_id),
        amount_nano=amount_nano,
        order_id=order_id,
        created_at_ms=now_ms,
    )
    customer, revenue = await _lock(session, wanted.credit_id), await _lock(session, REVENUE)
    first = await session.get(Transfer, wanted.id)
    if first is not None:
        return _checked(first, wanted)
    left = await net_charge(session, order_id)
    if amount_nano > left:
        raise LedgerError(
            f"order {order_id} was charged {usd_of(left)} USD, less than {usd_of(amount_nano)} USD"
        )
    revenue.debits_posted += amount_nano
    customer.credits_posted += amount_nano
    return await _write(session, wanted, customer, revenue)


async def net_charge(session: AsyncSession, order_id: str) -> int:
    """Return what an order was charged, in nano-USD, without what was given back of it."""
    statement = select(Transfer.kind, Transfer.amount_nano).where(
        col(Transfer.order_id) == order_id
    )
    signs = {TransferKind.CAPTURE: 1, TransferKind.REFUND: -1}
    rows = (await session.exec(statement)).all()
    return sum(signs.get(TransferKind(kind), 0) * amount for kind, amount in rows)


async def _resolve(
    session: AsyncSession, kind: TransferKind, order_id: str, amount_nano: int, now_ms: int
) -> Transfer:
    held = await session.get(Transfer, transfer_id(TransferKind.HOLD, order_id))
    if held is None:
        raise LedgerError(f"nothing is held for order {order_id}")
    wanted = Transfer(
        id=transfer_id(kind, order_id),
        kind=kind,
        debit_id=held.debit_id,
        credit_id=held.credit_id,
        amount_nano=amount_nano,
        order_id=order_id,
        hold_id=held.id,
        held_nano=held.amount_nano,
        created_at_ms=now_ms,
    )
    customer, revenue = await _lock(session, held.debit_id), await _lock(session, held.credit_id)
    statement = select(Transfer).where(col(Transfer.hold_id) == held.id)
    first = (await session.exec(statement)).one_or_none()
    if first is not None:
        return _checked(first, wanted)
    if amount_nano > held.amount_nano:
        raise LedgerError(
            f"order {order_id} holds {usd_of(held.amount_nano)} USD, less than "
            f"{usd_of(amount_nano)} USD"
        )
    customer.debits_pending -= held.amount_nano
    customer.debits_posted += amount_nano
    revenue.credits_pending -= held.amount_nano
    revenue.credits_posted += amount_nano
    return await _write(session, wanted, customer, revenue)


async def _lock(session: AsyncSession, ledger_id: str) -> LedgerAccount:
    """Return an account of the ledger as it is now, locked until the transaction ends."""
    return await session.get_one(
        LedgerAccount, ledger_id, with_for_update={"key_share": True}, populate_existing=True
    )


def _checked(first: Transfer, wanted: Transfer) -> Transfer:
    """Return the transfer that a repeat finds, which must have been the same."""
    apart = {"created_at_ms"}
    if first.model_dump(exclude=apart) != wanted.model_dump(exclude=apart):
        raise LedgerError(
            f"there is {first.id} already, of {usd_of(first.amount_nano)} USD from "
            f"{first.debit_id} to {first.credit_id}; {wanted.id} of "
            f"{usd_of(wanted.amount_nano)} USD from {wanted.debit_id} to {wanted.credit_id} is "
            "another transfer"
        )
    return first


async def _write(
    session: AsyncSession, transfer: Transfer, customer: LedgerAccount, house: LedgerAccount
) -> Transfer:
    if max(house.debits_posted, house.credits_posted + house.credits_pending) > MAX_NANO:
        raise LedgerError(f"all transfers together may come to {usd_of(MAX_NANO)} USD")
    session.add_all((transfer, customer, house))
    await session.flush()
    return transfer


def _insufficient(wanted: int, available: int) -> GatewayError:
    return GatewayError(
        402,
        "insufficient_balance",
        f"The price of {usd_of(wanted)} USD would be reserved; the balance is "
        f"{usd_of(available)} USD.",
    )
