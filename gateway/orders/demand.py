"""The demand board: what work waits, so that nodes can choose what to load."""

from collections import Counter

from sqlmodel import col, func, select
from sqlmodel.ext.asyncio.session import AsyncSession

from gateway.store.engine import Store
from gateway.store.tables import Order, OrderStatus, Review, ReviewState, Unit, UnitState
from protocol.messages import Demand, DemandBoard

ROWS = 1_000
GENERATING = (OrderStatus.VALIDATING, OrderStatus.IN_PROGRESS)
AT_WORK = (*GENERATING, OrderStatus.CANCELLING)

ModelCommit = tuple[str, str, str]


async def demand(store: Store, now_ms: int) -> DemandBoard:
    """Return the work that waits, by model commit, the earliest end of a window first."""
    statement = select(Order).where(
        col(Order.status).in_(AT_WORK), col(Order.expires_at_ms) > now_ms
    )
    async with store.read() as session:
        orders = (await session.exec(statement)).all()
        waiting = await _waiting(session)
        reviews = await _reviews(session)
    samples: Counter[ModelCommit] = Counter()
    audits: Counter[ModelCommit] = Counter()
    deadlines: dict[ModelCommit, int] = {}
    for order in orders:
        uncut = 0
        if order.status in GENERATING:
            uncut = (order.lines_usable - order.cursor_line) * order.n
        generate = uncut + waiting.get((order.id, UnitState.OPEN), 0)
        audit = waiting.get((order.id, UnitState.SUBMITTED), 0) + reviews.get(order.id, 0)
        if generate or audit:
            key = (order.model, order.revision, order.architecture)
            samples[key] += generate
            audits[key] += audit
            deadlines[key] = min(deadlines.get(key, order.expires_at_ms), order.expires_at_ms)
    rows = [
        Demand(
            model=key[0],
            revision=key[1],
            architecture=key[2],
            waiting_samples=samples[key],
            waiting_audits=audits[key],
            deadline=deadline / 1000,
        )
        for key, deadline in deadlines.items()
    ]
    return DemandBoard(demands=sorted(rows, key=lambda row: (row.deadline, row.model))[:ROWS])


async def _waiting(session: AsyncSession) -> dict[tuple[str, str], int]:
    """Return the samples of the units that wait, by order and unit state."""
    statement = (
        select(Unit.order_id, Unit.state, func.sum(Unit.samples))
        .where(col(Unit.state).in_((UnitState.OPEN, UnitState.SUBMITTED)))
        .group_by(col(Unit.order_id), col(Unit.state))
    )
    rows = (await session.exec(statement)).all()
    return {(order_id, state): int(count) for order_id, state, count in rows}


async def _reviews(session: AsyncSession) -> dict[str, int]:
    """Return the samples of the units that wait for a second opinion, by order."""
    statement = (
        select(Review.order_id, func.sum(Unit.samples))
        .join(Unit, col(Unit.id) == col(Review.unit_id))
        .where(col(Review.state) == ReviewState.OPEN)
        .group_by(col(Review.order_id))
    )
    return {order_id: int(count) for order_id, count in (await session.exec(statement)).all()}
