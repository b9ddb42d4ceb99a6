"""What an order comes to: the one rule of what is charged, and the bill that its customer sees.

Of completion tokens those that were verified are charged, and with the first of them GPU time and
prompt tokens. Where nothing was verified nothing is charged, and an order that failed through no
act of its customer is free.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlmodel import col, select

from gateway.catalog.price import Price
from gateway.ledger.money import usd_of
from gateway.store.engine import Store
from gateway.store.tables import OPEN_STATUSES, Order, OrderStatus, Transfer, TransferKind


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
class Bill:
    """An order's money in nano-USD.

    Attributes:
        price: what was reserved when it was placed.
        charged: what it was charged; while it is open, what it comes to so far.
        refunded: what was given back; None while it is open.
    """

    price: int
    charged: int
    refunded: int | None

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
    statement = select(Transfer.order_id, Transfer.amount_nano).where(
        col(Transfer.order_id).in_(ended), col(Transfer.kind) == TransferKind.CAPTURE
    )
    async with store.read() as session:
        captured = dict((await session.exec(statement)).all())
    return {order.id: _bill(order, captured.get(order.id, 0)) for order in orders}


def _bill(order: Order, captured: int) -> Bill:
    price = price_of(order)
    reserved = 0 if price is None else price.reserved
    if order.status in OPEN_STATUSES:
        return Bill(reserved, charge_of(order, order.tokens_verified), None)
    return Bill(reserved, captured, reserved - captured)
