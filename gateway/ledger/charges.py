"""What an order comes to: the one rule of what is charged, and the bill that its customer sees.

Of completion tokens those that were verified are charged, and with the first of them GPU time and
prompt tokens. Where nothing was verified nothing is charged, and an order that failed through no
act of its customer is free.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlmodel import col, func, select
from sqlmodel.ext.asyncio.session import AsyncSession

from gateway.catalog.price import Price
from gateway.ledger.money import usd_of
from gateway.store.engine import Store
from gateway.store.tables import OPEN_STATUSES, Order, OrderStatus, Review, Transfer, TransferKind


def price_of(order: Order) -> Price | None:
    """Return what an order was quoted; None of one that was placed before there were prices."""
    return None if order.price_json is None else Price.from_json(order.price_json)


def charge_of(order: Order, tokens_verified: int) -> int:
    """Return what an order would be charged if it ended as it stands, in nano-USD.

    Args:
        tokens_verified: the completion tokens of it that standing verdicts verified.
    """
    price = price_of(order)
    if price is None or order.status == OrderStatus.FAILED:
        return 0
    return price.charge(tokens_verified)


@dataclass(frozen=True)
class Redress:
    """What a second look found to fail of what was delivered, and what was given back for it.

    Attributes:
        samples, tokens: that failed.
        refunded: in nano-USD.
        at_ms: when the last such look ended.
    """

    samples: int
    tokens: int
    refunded: int
    at_ms: int

    def members(self) -> dict[str, int | str]:
        """Return the members of ``redress`` in an order's native view."""
        return {
            "samples_failed": self.samples,
            "tokens_failed": self.tokens,
            "refunded_usd": usd_of(self.refunded),
            "at": self.at_ms // 1000,
        }


@dataclass(frozen=True)
class Bill:
    """An order's money in nano-USD.

    Attributes:
        price: what was reserved when it was placed.
        charged: what it was charged, without what was given back later; while it is open, what it
            comes to so far.
        refunded: what was given back, at its end and later; None while it is open.
        redress: why something was given back later; None where nothing was.
    """

    price: int
    charged: int
    refunded: int | None
    redress: Redress | None = None

    def members(self) -> dict[str, str | None]:
        """Return the members of an order's native view."""
        return {
            "price_usd": usd_of(self.price),
            "charged_usd": usd_of(self.charged),
            "refunded_usd": None if self.refunded is None else usd_of(self.refunded),
        }


async def bills(store: Store, orders: Sequence[Order]) -> dict[str, Bill]:
    """Return the bills of orders by id; what an ended one was charged is the ledger's word."""
    ended = [order.id for order in orders if order.status not in OPEN_STATUSES]
    async with store.read() as session:
        captured = await _sums(session, ended, TransferKind.CAPTURE)
        refunded = await _sums(session, ended, TransferKind.REFUND)
        failed = await _failed(session, ended)
    return {
        order.id: _bill(
            order, captured.get(order.id, 0), refunded.get(order.id, 0), failed.get(order.id)
        )
        for order in orders
    }


async def _sums(
    session: AsyncSession, order_ids: Sequence[str], kind: TransferKind
) -> dict[str | None, int]:
    statement = (
        select(Transfer.order_id, func.sum(Transfer.amount_nano))
        .where(col(Transfer.order_id).in_(order_ids), col(Transfer.kind) == kind)
        .group_by(col(Transfer.order_id))
    )
    return {order_id: int(amount) for order_id, amount in (await session.exec(statement)).all()}


async def _failed(
    session: AsyncSession, order_ids: Sequence[str]
) -> dict[str, tuple[int, int, int]]:
    """Return the samples and tokens that failed after delivery, and when, by order."""
    statement = (
        select(
            Review.order_id,
            func.sum(Review.failed_samples),
            func.sum(Review.failed_tokens),
            func.max(Review.closed_at_ms),
        )
        .where(col(Review.order_id).in_(order_ids), col(Review.failed_samples) > 0)
        .group_by(col(Review.order_id))
    )
    rows = (await session.exec(statement)).all()
    return {
        one: (int(samples or 0), int(tokens or 0), at or 0) for one, samples, tokens, at in rows
    }


def _bill(order: Order, captured: int, refunded: int, failed: tuple[int, int, int] | None) -> Bill:
    price = price_of(order)
    reserved = 0 if price is None else price.reserved
    if order.status in OPEN_STATUSES:
        return Bill(reserved, charge_of(order, order.tokens_verified), None)
    charged = captured - refunded
    redress = None if failed is None else Redress(failed[0], failed[1], refunded, failed[2])
    return Bill(reserved, charged, reserved - charged, redress)
