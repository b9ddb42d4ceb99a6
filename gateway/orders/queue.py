"""Where a waiting order stands in line, and when it will probably start.

The earliest end of a window goes first. An order waits for what the miners that can serve it have
at work, and for what goes before it and they could take too; at their measured speed that is a
time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement
from sqlmodel import case, col, func, select
from sqlmodel.ext.asyncio.session import AsyncSession

from gateway.orders.generation import GENERATING, audit_backlog
from gateway.orders.nodes import can_serve, live_nodes
from gateway.orders.policy import SECOND, Policy
from gateway.orders.reading import goes_before, queue_position
from gateway.store.engine import Store
from gateway.store.tables import (
    Lease,
    LeaseKind,
    LeaseState,
    Node,
    NodeRole,
    Order,
    Unit,
    UnitState,
)
from protocol.messages import LoadedModel


@dataclass(frozen=True)
class Place:
    """An order's place in line.

    Attributes:
        position: from 1, among all orders that wait to start.
        start_at_ms: Unix milliseconds of the estimated start; None where nothing tells.
        waits_for_capacity: False where a miner can take it at once.
    """

    position: int
    start_at_ms: int | None
    waits_for_capacity: bool


async def place_in_line(store: Store, order: Order, policy: Policy, now_ms: int) -> Place:
    """Return where an order stands that waits to start."""
    position = await queue_position(store, order)
    async with store.read() as session:
        miners = [
            node
            for node in await live_nodes(session, NodeRole.MINER, policy, now_ms)
            if can_serve(node, order)
        ]
        tokens = await _tokens_at_work(session, miners)
        tokens += await _tokens_before(session, order, miners, now_ms)
        loaded = LoadedModel(model=order.model, revision=order.revision)
        held_back = await audit_backlog(session, loaded) >= policy.audit_backlog
    seconds = None if held_back else seconds_until(tokens, [m.tokens_per_second for m in miners])
    start_at_ms = None if seconds is None else now_ms + round(seconds * SECOND)
    return Place(position, start_at_ms, waits_for_capacity=seconds != 0)


def seconds_until(tokens: float, speeds: Sequence[float | None]) -> float | None:
    """Return how long miners need for ``tokens``; None where that cannot be told.

    Args:
        speeds: tokens per second of each; None where it was never measured, which counts as the
            mean of the others.
    """
    if not speeds:
        return None
    if not tokens:
        return 0.0
    known = [speed for speed in speeds if speed]
    if not known:
        return None
    return tokens * len(known) / (sum(known) * len(speeds))


async def _tokens_at_work(session: AsyncSession, miners: Sequence[Node]) -> float:
    """Return what the miners have yet to generate of the units that they hold."""
    rest = col(Unit.samples) * _tokens_a_sample() - col(Lease.tokens)
    statement = (
        select(func.sum(case((rest > 0, rest), else_=0)))
        .select_from(Lease)
        .join(Unit, col(Unit.id) == col(Lease.unit_id))
        .join(Order, col(Order.id) == col(Lease.order_id))
        .where(
            col(Lease.kind) == LeaseKind.GENERATE,
            col(Lease.state) == LeaseState.LIVE,
            col(Lease.hotkey).in_([node.hotkey for node in miners]),
        )
    )
    return float((await session.exec(statement)).one() or 0)


async def _tokens_before(
    session: AsyncSession, order: Order, miners: Sequence[Node], now_ms: int
) -> float:
    """Return what is not leased yet of the orders that go before and that the miners can take."""
    uncut = (col(Order.lines_usable) - col(Order.cursor_line)) * col(Order.n)
    opened = (
        select(func.coalesce(func.sum(Unit.samples), 0))
        .where(col(Unit.order_id) == col(Order.id), col(Unit.state) == UnitState.OPEN)
        .correlate(Order)
        .scalar_subquery()
    )
    statement = select(Order, (uncut + opened) * _tokens_a_sample()).where(
        col(Order.status).in_(GENERATING),
        col(Order.expires_at_ms) > now_ms,
        goes_before(order),
    )
    rows = (await session.exec(statement)).all()
    return sum(
        float(tokens) for before, tokens in rows if any(can_serve(node, before) for node in miners)
    )


def _tokens_a_sample() -> ColumnElement[Any]:
    """What a sample of an order comes to: its verified ones tell, else half of ``max_tokens``."""
    verified = col(Order.samples_verified)
    measured = col(Order.tokens_verified) * 1.0 / func.nullif(verified, 0)
    return func.coalesce(measured, col(Order.max_tokens) * 0.5)
