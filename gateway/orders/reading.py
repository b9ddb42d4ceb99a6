"""Reading orders for their customers."""

from collections.abc import Sequence

from sqlmodel import and_, col, or_, select

from gateway.errors import GatewayError
from gateway.store.engine import Store
from gateway.store.tables import Order

BATCH_NOT_FOUND = (404, "batch_not_found", "There is no such batch.")


async def get_order(store: Store, account_id: str, order_id: str) -> Order:
    """Return an account's order.

    Raises:
        GatewayError: 404 for an unknown order, and just so for another account's.
    """
    async with store.read() as session:
        order = await session.get(Order, order_id)
    if order is None or order.account_id != account_id:
        raise GatewayError(*BATCH_NOT_FOUND)
    return order


async def list_orders(
    store: Store, account_id: str, limit: int, after: str | None
) -> tuple[Sequence[Order], bool]:
    """Return up to ``limit`` orders, newest first, and whether there are more.

    Args:
        after: the id of the last order of the page before, or None for the first page.

    Raises:
        GatewayError: 400 for a cursor that is no order of this account.
    """
    place = (col(Order.created_at_ms), col(Order.id))
    statement = select(Order).where(col(Order.account_id) == account_id)
    async with store.read() as session:
        if after is not None:
            last = await session.get(Order, after)
            if last is None or last.account_id != account_id:
                raise GatewayError(
                    400, "invalid_request", "after must be the id of one of your batches.", "after"
                )
            older = or_(
                place[0] < last.created_at_ms,
                and_(place[0] == last.created_at_ms, place[1] < last.id),
            )
            statement = statement.where(older)
        statement = statement.order_by(*(column.desc() for column in place)).limit(limit + 1)
        rows = (await session.exec(statement)).all()
    return rows[:limit], len(rows) > limit
