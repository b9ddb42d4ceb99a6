"""How an order's generation ends: settled, at the end of its window, or cancelled."""

from sqlmodel.ext.asyncio.session import AsyncSession

from gateway.errors import GatewayError
from gateway.orders import transitions
from gateway.orders.policy import Policy
from gateway.orders.reading import BATCH_NOT_FOUND
from gateway.orders.rows import (
    has_units_of_convicted,
    live_leases,
    lock_order,
    open_reviews,
    units_at_work,
)
from gateway.store.engine import Store
from gateway.store.tables import (
    Ending,
    LeaseState,
    Order,
    OrderStatus,
    ReviewEnd,
    ReviewState,
    UnitState,
)


async def cancel(store: Store, account_id: str, order_id: str, now_ms: int) -> Order:
    """Cancel an order and return it.

    It is cancelling then: units in flight may finish, and what is verified is delivered, with an
    account of what is not. A repeat on a cancelling order changes nothing.

    Raises:
        GatewayError: 404 for an unknown order or another account's, 409 ``batch_not_cancellable``
            once the order is being exported or has ended.
    """
    async with store.write() as session:
        order = await lock_order(session, order_id)
        if order is None or order.account_id != account_id:
            raise GatewayError(*BATCH_NOT_FOUND)
        if order.status == OrderStatus.VALIDATING:
            await transitions.cancel_unstarted(session, order.id, now_ms)
        elif order.status == OrderStatus.IN_PROGRESS:
            await transitions.begin_cancel(session, order.id, now_ms)
            await _skip_unstarted(session, order, now_ms)
        elif order.status != OrderStatus.CANCELLING:
            raise GatewayError(
                409,
                "batch_not_cancellable",
                f"The batch is {order.status} and can no longer be cancelled.",
                final=True,
            )
        await session.refresh(order)
    store.announce_news()
    return order


async def settle(session: AsyncSession, order: Order, now_ms: int) -> bool:
    """End a locked order's generation where every sample is verified or missing; say if it did.

    What waits for a second opinion is not delivered before, nor is what a convicted miner made.
    """
    settled = order.samples_verified + order.samples_missing == order.samples_total
    if order.status != OrderStatus.IN_PROGRESS or not settled:
        return False
    await session.flush()
    if await open_reviews(session, order.id):
        return False
    if await has_units_of_convicted(session, order.id):
        return False
    await transitions.finalize(session, order.id, Ending.COMPLETED, now_ms)
    return True


async def expire(store: Store, order_id: str, now_ms: int) -> bool:
    """End an order whose window is over; say if it did."""
    async with store.write() as session:
        order = await lock_order(session, order_id)
        if order is None or order.expires_at_ms > now_ms:
            return False
        if order.status == OrderStatus.VALIDATING:
            await transitions.expire_unstarted(session, order.id, now_ms)
            return True
        if order.status != OrderStatus.IN_PROGRESS:
            return False
        # They are taken back within a tick; then the rest is delivered.
        if await has_units_of_convicted(session, order.id):
            return False
        await _stop_work(session, order, now_ms)
        await transitions.finalize(session, order.id, Ending.EXPIRED, now_ms)
        return True


async def stop_cancelled(store: Store, order_id: str, policy: Policy, now_ms: int) -> bool:
    """Stop a cancelling order when nothing is in flight or its grace is over; say if it did."""
    async with store.write() as session:
        order = await lock_order(session, order_id)
        if order is None or order.status != OrderStatus.CANCELLING or order.ending is not None:
            return False
        over = now_ms >= (order.cancelling_at_ms or 0) + policy.cancel_grace_ms
        at_work = await units_at_work(session, order.id) or await open_reviews(session, order.id)
        if (not over and at_work) or await has_units_of_convicted(session, order.id):
            return False
        await _stop_work(session, order, now_ms)
        await transitions.stop_cancelled(session, order.id)
        return True


async def _skip_unstarted(session: AsyncSession, order: Order, now_ms: int) -> None:
    for unit in await units_at_work(session, order.id):
        if unit.state == UnitState.OPEN:
            unit.state = UnitState.CLOSED
            unit.closed_at_ms = now_ms
            session.add(unit)


async def _stop_work(session: AsyncSession, order: Order, now_ms: int) -> None:
    """Close all units, stop all leases, and count what is not verified as missing."""
    for unit in await units_at_work(session, order.id):
        unit.state = UnitState.CLOSED
        unit.closed_at_ms = now_ms
        session.add(unit)
    for review in await open_reviews(session, order.id):
        review.state = ReviewState.CLOSED
        review.ending = ReviewEnd.LATE
        review.closed_at_ms = now_ms
        session.add(review)
    for lease in await live_leases(session, order.id):
        lease.state = LeaseState.STOPPED
        lease.ended_at_ms = now_ms
        session.add(lease)
    order.samples_missing = order.samples_total - order.samples_verified
    session.add(order)
