"""The states of an order, and the only ways from one to another.

    validating ─► in_progress ─► finalizing ─► completed | expired
        │  │           └─► cancelling ─► cancelled
        │  └─► finalizing            (finalizing, cancelling ─► failed)
        └─► cancelling

Each function is one arrow: an UPDATE that names the state it starts from, so that an arrow that is
not drawn here cannot happen, whoever calls. The caller's transaction decides when it shows. An
arrow to a final state settles the order's money too, so that no order ends without.
"""

from sqlmodel import col, update
from sqlmodel.ext.asyncio.session import AsyncSession

from gateway.orders.settling import settle_money
from gateway.store.tables import Ending, Order, OrderStatus


class NotInState(Exception):
    """The order is not in the state that the transition starts from."""


async def start(session: AsyncSession, order_id: str, now_ms: int) -> None:
    """validating ─► in_progress, when the first unit is leased."""
    await _move(
        session,
        order_id,
        OrderStatus.VALIDATING,
        status=OrderStatus.IN_PROGRESS,
        in_progress_at_ms=now_ms,
    )


async def cancel_unstarted(session: AsyncSession, order_id: str, now_ms: int) -> None:
    """validating ─► cancelling, with nothing in flight: the export tells what was not done."""
    await _move(
        session,
        order_id,
        OrderStatus.VALIDATING,
        status=OrderStatus.CANCELLING,
        ending=Ending.CANCELLED,
        cancelling_at_ms=now_ms,
        samples_missing=Order.samples_total,
    )


async def expire_unstarted(session: AsyncSession, order_id: str, now_ms: int) -> None:
    """validating ─► finalizing: no miner came within the window; the export tells so."""
    await _move(
        session,
        order_id,
        OrderStatus.VALIDATING,
        status=OrderStatus.FINALIZING,
        ending=Ending.EXPIRED,
        finalizing_at_ms=now_ms,
        samples_missing=Order.samples_total,
    )


async def begin_cancel(session: AsyncSession, order_id: str, now_ms: int) -> None:
    """in_progress ─► cancelling: no more units are cut, those in flight may finish."""
    await _move(
        session,
        order_id,
        OrderStatus.IN_PROGRESS,
        status=OrderStatus.CANCELLING,
        cancelling_at_ms=now_ms,
    )


async def finalize(session: AsyncSession, order_id: str, ending: Ending, now_ms: int) -> None:
    """in_progress ─► finalizing: generation is over, the export leads to ``ending``."""
    await _move(
        session,
        order_id,
        OrderStatus.IN_PROGRESS,
        status=OrderStatus.FINALIZING,
        ending=ending,
        finalizing_at_ms=now_ms,
    )


async def stop_cancelled(session: AsyncSession, order_id: str) -> None:
    """Stay cancelling, but with nothing in flight any more: the export may begin."""
    await _move(session, order_id, OrderStatus.CANCELLING, ending=Ending.CANCELLED)


async def deliver(session: AsyncSession, order: Order, now_ms: int, **delivery: object) -> None:
    """finalizing or cancelling ─► the order's ending, with what its export made.

    Args:
        delivery: ``output_file_id``, ``error_file_id`` and ``receipts_key``.
    """
    if order.ending == Ending.CANCELLED:
        origin, final = OrderStatus.CANCELLING, OrderStatus.CANCELLED
        delivery["cancelled_at_ms"] = now_ms
    elif order.ending == Ending.EXPIRED:
        origin, final = OrderStatus.FINALIZING, OrderStatus.EXPIRED
        delivery["expired_at_ms"] = now_ms
    else:
        origin, final = OrderStatus.FINALIZING, OrderStatus.COMPLETED
        delivery["completed_at_ms"] = now_ms
    await _end(session, order.id, origin, now_ms, status=final, export_holder=None, **delivery)


async def fail(
    session: AsyncSession,
    order: Order,
    code: str,
    message: str,
    error_file_id: str | None,
    now_ms: int,
) -> None:
    """finalizing or cancelling ─► failed: the export cannot be made.

    Args:
        code, message: why.
        error_file_id: of the file that names all lines as not done; None where not even that could
            be made.
    """
    cancelled = order.ending == Ending.CANCELLED
    await _end(
        session,
        order.id,
        OrderStatus.CANCELLING if cancelled else OrderStatus.FINALIZING,
        now_ms,
        status=OrderStatus.FAILED,
        failed_at_ms=now_ms,
        failure_code=code,
        failure_message=message,
        error_file_id=error_file_id,
        export_holder=None,
    )


async def _end(
    session: AsyncSession, order_id: str, origin: OrderStatus, now_ms: int, **values: object
) -> None:
    await _move(session, order_id, origin, **values)
    await settle_money(session, order_id, now_ms)


async def _move(
    session: AsyncSession, order_id: str, origin: OrderStatus, **values: object
) -> None:
    statement = (
        update(Order)
        .where(col(Order.id) == order_id, col(Order.status) == origin)
        .values(**values)
        .execution_options(synchronize_session=False)
    )
    await session.flush()
    if (await session.exec(statement)).rowcount != 1:
        raise NotInState(f"order {order_id} is not {origin}")
