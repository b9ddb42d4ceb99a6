"""Customers' accounts: made, topped up, closed and opened by the operator."""

import re
from collections.abc import Sequence

from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from gateway.ledger.transfers import top_up, withdraw
from gateway.store.engine import Store
from gateway.store.tables import Account, AccountState, Transfer

_NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,79}", re.ASCII)
_PAYMENT_PATTERN = re.compile(r"[A-Za-z0-9_.@:-]{1,80}", re.ASCII)


class AccountError(ValueError):
    """The operator asked for something that cannot be; the message says what is allowed."""


async def create_account(store: Store, name: str, now_ms: int) -> Account:
    """Create an account, or return the one that has this name already.

    Raises:
        AccountError: the name is not 1 to 80 letters, digits and ``_.@-``.
    """
    if _NAME_PATTERN.fullmatch(name) is None:
        raise AccountError(
            "an account name is 1 to 80 of A-Z a-z 0-9 _ . @ - and starts with a letter or digit"
        )
    async with store.write() as session:
        known = await _named(session, name)
        if known is not None:
            return known
        account = Account(name=name, created_at_ms=now_ms)
        session.add(account)
        return account


async def find_account(store: Store, name: str) -> Account:
    """Return the account of this name.

    Raises:
        AccountError: there is none.
    """
    async with store.read() as session:
        account = await _named(session, name)
    if account is None:
        raise _unknown(name)
    return account


async def list_accounts(store: Store) -> Sequence[Account]:
    """Return all accounts, in the order of their names."""
    async with store.read() as session:
        return (await session.exec(select(Account).order_by(col(Account.name)))).all()


async def set_account_state(store: Store, name: str, state: AccountState) -> Account:
    """Open or close an account. Orders of a closed one go on; its keys are refused meanwhile.

    Raises:
        AccountError: there is no account of this name.
    """
    async with store.write() as session:
        account = await _named(session, name)
        if account is None:
            raise _unknown(name)
        account.state = state
        session.add(account)
        return account


async def credit_account(
    store: Store, name: str, amount_nano: int, payment: str, now_ms: int
) -> Transfer:
    """Top an account up; the same payment again changes nothing.

    Args:
        amount_nano: above 0, in nano-USD.
        payment: the operator's own id of it, 1 to 80 letters, digits and ``_.@:-``.

    Raises:
        AccountError: there is no account of this name, or the id is none.
        LedgerError: another payment had this id.
    """
    _check_id(payment)
    async with store.write() as session:
        return await top_up(
            session, (await _locked(session, name)).id, amount_nano, payment, now_ms
        )


async def debit_account(
    store: Store, name: str, amount_nano: int, cause: str, now_ms: int
) -> Transfer:
    """Take money back from an account, such as a mistaken top-up; the same again changes nothing.

    Args:
        amount_nano: above 0, in nano-USD.
        cause: the operator's own id of it, 1 to 80 letters, digits and ``_.@:-``.

    Raises:
        AccountError: there is no account of this name, or the id is none.
        LedgerError: the account cannot spend as much, or another debit had this id.
    """
    _check_id(cause)
    async with store.write() as session:
        return await withdraw(
            session, (await _locked(session, name)).id, amount_nano, cause, now_ms
        )


def _check_id(cause: str) -> None:
    if _PAYMENT_PATTERN.fullmatch(cause) is None:
        raise AccountError("a payment's id is 1 to 80 of A-Z a-z 0-9 _ . @ : -")


async def _locked(session: AsyncSession, name: str) -> Account:
    """Return an account, locked: two first payments must not open its ledger twice."""
    statement = select(Account).where(Account.name == name).with_for_update(key_share=True)
    account = (await session.exec(statement)).one_or_none()
    if account is None:
        raise _unknown(name)
    return account


async def _named(session: AsyncSession, name: str) -> Account | None:
    return (await session.exec(select(Account).where(Account.name == name))).one_or_none()


def _unknown(name: str) -> AccountError:
    return AccountError(f"there is no account named {name[:80]!r}")
