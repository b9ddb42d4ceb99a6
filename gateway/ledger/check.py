"""The check of the books: everything is computed again from transfers and verdicts.

Nothing that is stored as a sum is believed: neither an account's totals, nor an order's counters.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlmodel import col, func, select
from sqlmodel.ext.asyncio.session import AsyncSession

from gateway.ledger.charges import charge_of, price_of
from gateway.ledger.money import usd_of
from gateway.ledger.transfers import customer_id
from gateway.store.engine import Store
from gateway.store.tables import (
    OPEN_STATUSES,
    LedgerAccount,
    LedgerKind,
    Order,
    Review,
    Transfer,
    TransferKind,
    Verdict,
)

SUMS = ("debits_pending", "debits_posted", "credits_pending", "credits_posted")


@dataclass(frozen=True)
class Report:
    """What a check found.

    Attributes:
        accounts, transfers, orders: how many there are.
        credited, charged, reserved: of all customers together, in nano-USD; what was taken or given
            back does not count.
        faults: what is off, a sentence each that names the row; none where the books are right.
    """

    accounts: int
    transfers: int
    orders: int
    credited: int
    charged: int
    reserved: int
    faults: list[str]


@dataclass(frozen=True)
class Books:
    """All rows that the check is about, as they were at one moment.

    ``tokens`` are those that standing verdicts verified, by order; ``failed`` those of them that
    failed when they were judged again after their delivery.
    """

    accounts: Sequence[LedgerAccount]
    transfers: Sequence[Transfer]
    orders: Sequence[Order]
    tokens: Mapping[str, int]
    failed: Mapping[str, int]


async def check(store: Store) -> Report:
    """Compute all sums and charges again and compare them with what is stored."""
    async with store.read() as session:
        await _hold_still(session)
        books = Books(
            (await session.exec(select(LedgerAccount).order_by(col(LedgerAccount.id)))).all(),
            (await session.exec(select(Transfer).order_by(col(Transfer.id)))).all(),
            (await session.exec(select(Order).order_by(col(Order.id)))).all(),
            await _tokens(session),
            await _failed(session),
        )
    return examine(books)


def examine(books: Books) -> Report:
    """Return what is off in the books. Pure."""
    holds = {one.id: one for one in books.transfers if one.kind == TransferKind.HOLD}
    ends = [one for one in books.transfers if one.hold_id is not None]
    ended = {one.hold_id: one for one in ends}
    sums = _sums(books.transfers, ended)
    faults = [
        *_wrong_ends(holds, ends),
        *_wrong_sums(books.accounts, sums),
        *_wrong_orders(books, holds, ended),
        *_wrong_refunds(books),
    ]
    cash, revenue = sums[LedgerKind.CASH], sums[LedgerKind.REVENUE]
    return Report(
        accounts=sum(one.kind == LedgerKind.CUSTOMER for one in books.accounts),
        transfers=len(books.transfers),
        orders=len(books.orders),
        credited=cash["debits_posted"] - cash["credits_posted"],
        charged=revenue["credits_posted"] - revenue["debits_posted"],
        reserved=revenue["credits_pending"],
        faults=faults,
    )


async def _hold_still(session: AsyncSession) -> None:
    """See the database as it is at one moment, though the gateway goes on."""
    if session.get_bind().dialect.name == "postgresql":
        await session.connection(execution_options={"isolation_level": "REPEATABLE READ"})


async def _tokens(session: AsyncSession) -> dict[str, int]:
    """Return the tokens that standing verdicts verified, by order."""
    statement = (
        select(Verdict.order_id, func.sum(Verdict.tokens))
        .where(col(Verdict.withdrawn_at_ms).is_(None))
        .group_by(col(Verdict.order_id))
    )
    return {order_id: int(tokens) for order_id, tokens in (await session.exec(statement)).all()}


async def _failed(session: AsyncSession) -> dict[str, int]:
    """Return the tokens that failed after their delivery, by order."""
    statement = (
        select(Review.order_id, func.sum(Review.failed_tokens))
        .where(col(Review.failed_tokens).is_not(None))
        .group_by(col(Review.order_id))
    )
    return {
        order_id: int(tokens or 0) for order_id, tokens in (await session.exec(statement)).all()
    }


def _sums(
    transfers: Sequence[Transfer], ended: Mapping[str | None, Transfer]
) -> dict[str, Counter[str]]:
    """Add all transfers up, by account and by the name of the sum."""
    sums: dict[str, Counter[str]] = defaultdict(Counter)
    for transfer in transfers:
        debit, credit = sums[transfer.debit_id], sums[transfer.credit_id]
        if transfer.kind != TransferKind.HOLD:
            debit["debits_posted"] += transfer.amount_nano
            credit["credits_posted"] += transfer.amount_nano
        elif transfer.id not in ended:
            debit["debits_pending"] += transfer.amount_nano
            credit["credits_pending"] += transfer.amount_nano
    return sums


def _wrong_ends(holds: Mapping[str, Transfer], ends: Sequence[Transfer]) -> Iterator[str]:
    times = Counter(end.hold_id for end in ends)
    for end in ends:
        held = holds.get(end.hold_id or "")
        if held is None:
            yield f"transfer {end.id} ends {end.hold_id}, which is no hold"
        elif (end.debit_id, end.credit_id) != (held.debit_id, held.credit_id):
            yield f"transfer {end.id} moves between other accounts than its hold {held.id}"
        elif end.amount_nano > held.amount_nano:
            yield f"transfer {end.id} charges more than its hold {held.id} set aside"
        if times[end.hold_id] > 1:
            yield f"hold {end.hold_id} ended {times[end.hold_id]} times, once as {end.id}"


def _wrong_sums(
    accounts: Sequence[LedgerAccount], sums: Mapping[str, Counter[str]]
) -> Iterator[str]:
    for kind in ("pending", "posted"):
        debits = sum(getattr(one, f"debits_{kind}") for one in accounts)
        credits = sum(getattr(one, f"credits_{kind}") for one in accounts)
        if debits != credits:
            yield f"all debits {kind} come to {debits} nano-USD, all credits {kind} to {credits}"
    for account in accounts:
        own = sums.get(account.id, Counter())
        for name in SUMS:
            if getattr(account, name) != own[name]:
                yield (
                    f"account {account.id}: {name} is {getattr(account, name)} nano-USD, its "
                    f"transfers come to {own[name]}"
                )
        spent = own["debits_posted"] + own["debits_pending"]
        if account.kind == LedgerKind.CUSTOMER and spent > own["credits_posted"]:
            yield f"account {account.id} is overdrawn"
    for missing in sorted(sums.keys() - {account.id for account in accounts}):
        yield f"account {missing} has transfers and no row"


def _wrong_orders(
    books: Books, holds: Mapping[str, Transfer], ended: Mapping[str | None, Transfer]
) -> Iterator[str]:
    unclaimed = {hold.order_id for hold in holds.values()}
    for order in books.orders:
        unclaimed.discard(order.id)
        tokens = books.tokens.get(order.id, 0)
        if order.tokens_verified != tokens:
            yield (
                f"order {order.id}: tokens_verified is {order.tokens_verified}, its verdicts come "
                f"to {tokens}"
            )
        hold = holds.get(f"{TransferKind.HOLD}:{order.id}")
        end = None if hold is None else ended.get(hold.id)
        yield from _wrong_order(order, tokens, hold, end)
    for order_id in sorted(str(one) for one in unclaimed):
        yield f"hold of order {order_id}: there is no such order"


def _wrong_refunds(books: Books) -> Iterator[str]:
    """Yield the orders whose refunds are not what failed after delivery comes to."""
    refunded = Counter[str | None]()
    for one in books.transfers:
        if one.kind == TransferKind.REFUND:
            refunded[one.order_id] += one.amount_nano
    captured = {
        one.order_id: one.amount_nano for one in books.transfers if one.kind == TransferKind.CAPTURE
    }
    for order in books.orders:
        given_back = refunded.pop(order.id, 0)
        failed = books.failed.get(order.id, 0)
        if not given_back and not failed:
            continue
        try:
            left = charge_of(order, books.tokens.get(order.id, 0) - failed)
        except ValueError:
            # Told of the order itself.
            continue
        due = captured.get(order.id, 0) - left
        if given_back != due:
            yield (
                f"order {order.id}: {usd_of(given_back)} USD were given back; what failed after "
                f"its delivery comes to {usd_of(max(due, 0))} USD"
            )
    for order_id in sorted(str(one) for one in refunded):
        yield f"refund of order {order_id}: there is no such order"


def _wrong_order(
    order: Order, tokens: int, hold: Transfer | None, end: Transfer | None
) -> Iterator[str]:
    try:
        price = price_of(order)
    except ValueError:
        yield f"order {order.id}: its price_json cannot be read"
        return
    if price is None or hold is None:
        if (price is None) != (hold is None):
            yield f"order {order.id} has a {'price' if price else 'hold'} alone"
        return
    if hold.amount_nano != price.reserved:
        yield (
            f"order {order.id}: {usd_of(hold.amount_nano)} USD were held, the price that it was "
            f"quoted is {usd_of(price.reserved)} USD"
        )
    if hold.debit_id != customer_id(order.account_id):
        yield f"order {order.id}: {hold.debit_id} pays, and is not its account"
    if order.status in OPEN_STATUSES:
        if end is not None:
            yield f"order {order.id} is {order.status}, and its hold has ended as {end.id}"
        return
    due = charge_of(order, tokens)
    if end is None:
        yield f"order {order.id} is {order.status}, and {usd_of(hold.amount_nano)} USD are held"
    elif end.amount_nano != due:
        yield (
            f"order {order.id}: {usd_of(end.amount_nano)} USD were charged by {end.id}; its "
            f"verdicts come to {usd_of(due)} USD"
        )
