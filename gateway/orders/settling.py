"""The settlement of an order: its hold is ended in the transaction that ends the order itself."""

from sqlmodel import col, func, select
from sqlmodel.ext.asyncio.session import AsyncSession

from gateway.ledger.charges import charge_of
from gateway.ledger.transfers import capture, void
from gateway.store.tables import Order, Verdict


async def settle_money(session: AsyncSession, order_id: str, now_ms: int) -> None:
    """Charge an order that has just ended for what was verified, and free the rest."""
    order = await session.get_one(Order, order_id, populate_existing=True)
    if order.price_json is None:
        return
    charge = charge_of(order, await verified_tokens(session, order_id))
    if charge:
        await capture(session, order_id, charge, now_ms)
    else:
        await void(session, order_id, now_ms)


async def verified_tokens(session: AsyncSession, order_id: str) -> int:
    """Return the completion tokens of an order that its standing verdicts were first to verify."""
    statement = select(func.coalesce(func.sum(Verdict.tokens), 0)).where(
        col(Verdict.order_id) == order_id, col(Verdict.withdrawn_at_ms).is_(None)
    )
    return int((await session.exec(statement)).one())
