"""Locked reads. Whoever changes an order, its units or its leases locks the order's row first.

One order of locking (order, unit, lease, node) keeps transactions from waiting for each other in a
circle. The lock is ``FOR NO KEY UPDATE``, which lets other rows refer to the order meanwhile;
SQLite has one writer and needs none.
"""

from collections.abc import Sequence

from sqlalchemy import bindparam
from sqlmodel import and_, col, or_, select
from sqlmodel.ext.asyncio.session import AsyncSession
from sqlmodel.sql.expression import SelectOfScalar

from gateway.orders.samples import VERIFIED
from gateway.store.tables import (
    Account,
    Lease,
    LeaseKind,
    LeaseState,
    Node,
    Order,
    OrderStatus,
    Review,
    ReviewState,
    Unit,
    UnitState,
)

# Statements of every request, made once.
_ORDER = select(Order).where(col(Order.id) == bindparam("order_id")).with_for_update(key_share=True)
_NODE = select(Node).where(col(Node.hotkey) == bindparam("hotkey")).with_for_update(key_share=True)
_GENERATING = select(Lease).where(
    col(Lease.unit_id) == bindparam("unit_id"),
    col(Lease.kind) == LeaseKind.GENERATE,
    col(Lease.state) == LeaseState.LIVE,
)


async def lock_account(session: AsyncSession, account_id: str) -> None:
    """Lock an account until the transaction ends."""
    statement = select(Account.id).where(col(Account.id) == account_id)
    (await session.exec(statement.with_for_update(key_share=True))).one()


async def lock_order(session: AsyncSession, order_id: str) -> Order | None:
    """Return an order, locked until the transaction ends; None where there is none."""
    return (await session.exec(_ORDER, params={"order_id": order_id})).one_or_none()


async def lock_node(session: AsyncSession, hotkey: str) -> Node | None:
    """Return a node, locked until the transaction ends; None where there is none."""
    return (await session.exec(_NODE, params={"hotkey": hotkey})).one_or_none()


async def units_at_work(session: AsyncSession, order_id: str) -> Sequence[Unit]:
    """Return the units of an order that are not closed, locked, oldest first."""
    statement = (
        select(Unit)
        .where(col(Unit.order_id) == order_id, col(Unit.state) != UnitState.CLOSED)
        .order_by(col(Unit.created_at_ms), col(Unit.id))
        .with_for_update(key_share=True)
    )
    return (await session.exec(statement)).all()


async def open_reviews(session: AsyncSession, order_id: str) -> Sequence[Review]:
    """Return the reviews of an order's units that are not closed."""
    statement = select(Review).where(
        col(Review.order_id) == order_id, col(Review.state) != ReviewState.CLOSED
    )
    return (await session.exec(statement)).all()


def is_undelivered(order: Order) -> bool:
    """Say whether what an order delivers can still change."""
    if order.status == OrderStatus.CANCELLING:
        return order.ending is None
    return order.status == OrderStatus.IN_PROGRESS


def units_of_convicted() -> SelectOfScalar[str]:
    """Return what selects the units whose verified samples a convicted miner made, undelivered."""
    cancelling = and_(col(Order.status) == OrderStatus.CANCELLING, col(Order.ending).is_(None))
    return (
        select(Unit.id)
        .join(Lease, col(Lease.id) == col(Unit.result_lease_id))
        .join(Node, col(Node.hotkey) == col(Lease.hotkey))
        .join(Order, col(Order.id) == col(Unit.order_id))
        .where(
            col(Node.convicted_at_ms).is_not(None),
            col(Unit.state) == UnitState.CLOSED,
            col(Unit.outcomes).contains(VERIFIED),
            or_(col(Order.status) == OrderStatus.IN_PROGRESS, cancelling),
        )
    )


async def has_units_of_convicted(session: AsyncSession, order_id: str) -> bool:
    """Say whether an order still counts samples as verified that a convicted miner made."""
    statement = units_of_convicted().where(col(Unit.order_id) == order_id).limit(1)
    return (await session.exec(statement)).first() is not None


async def generating(session: AsyncSession, unit_id: str) -> Sequence[Lease]:
    """Return the live generation leases of a unit: one, or two near the end of its order."""
    return (await session.exec(_GENERATING, params={"unit_id": unit_id})).all()


async def live_leases(session: AsyncSession, order_id: str) -> Sequence[Lease]:
    """Return the live leases of an order."""
    statement = select(Lease).where(
        col(Lease.order_id) == order_id, col(Lease.state) == LeaseState.LIVE
    )
    return (await session.exec(statement)).all()
