"""Where a waiting order stands in line, and when it will probably start.

The earliest end of a window goes first. An order waits for what the miners that can serve it have
at work, and for what goes before it and they could take too; at their measured speed that is a
time.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import sqlalchemy
from sqlmodel import case, col, func, select
from sqlmodel.ext.asyncio.session import AsyncSession

from gateway.orders.generation import audit_backlogs
from gateway.orders.nodes import LiveNode, can_serve, live_nodes
from gateway.orders.policy import SECOND, Policy
from gateway.orders.serving import GENERATING
from gateway.orders.sizes import tokens_a_sample
from gateway.store.engine import Store
from gateway.store.tables import (
    Lease,
    LeaseKind,
    LeaseState,
    NodeRole,
    Order,
    OrderStatus,
    Unit,
    UnitState,
)


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


async def places_in_line(
    store: Store, orders: Sequence[Order], policy: Policy, now_ms: int
) -> dict[str, Place]:
    """Return where orders stand that wait to start, by id.

    The line is read once, however many orders are asked for.
    """
    if not orders:
        return {}
    async with store.read() as session:
        miners = await live_nodes(session, NodeRole.MINER, policy, now_ms)
        at_work = await _tokens_at_work(session, miners)
        line = await _line(session)
        waiting_audits = await audit_backlogs(session)
    held_back = {key for key, units in waiting_audits.items() if units >= policy.audit_backlog}
    view = _Line(line, miners, at_work, held_back, now_ms)
    return {order.id: view.place(order) for order in orders}


class _InLine(NamedTuple):
    """An order that generates or waits to; ``tokens`` of it are not leased yet."""

    expires_at_ms: int
    id: str
    status: OrderStatus
    model: str
    revision: str
    architecture: str
    tokens: float


class _Line:
    """The orders of the network at one moment, those that go first before the others."""

    def __init__(
        self,
        line: Sequence[_InLine],
        miners: Sequence[LiveNode],
        at_work: Mapping[str, Mapping[str, float]],
        held_back: Set[tuple[str, str]],
        now_ms: int,
    ) -> None:
        self._line = line
        self._miners = miners
        self._at_work = at_work
        self._held_back = held_back
        self._now_ms = now_ms
        # By what of an order makes a miner able, of which there are few.
        self._able: dict[tuple[str, str, str], frozenset[str]] = {}

    def place(self, order: Order) -> Place:
        """Return where a waiting order stands."""
        able = self._who_can(order)
        # Its own work, which a miner may have taken this moment, is nothing to wait for.
        position, tokens = (
            1,
            sum(
                rest
                for hotkey in able
                for order_id, rest in self._at_work.get(hotkey, {}).items()
                if order_id != order.id
            ),
        )
        for before in self._line:
            if (before.expires_at_ms, before.id) >= (order.expires_at_ms, order.id):
                break
            position += before.status == OrderStatus.VALIDATING
            if before.expires_at_ms > self._now_ms and not able.isdisjoint(self._who_can(before)):
                tokens += before.tokens
        speeds = [miner.tokens_per_second for miner in self._miners if miner.hotkey in able]
        held_back = (order.model, order.revision) in self._held_back
        seconds = None if held_back else seconds_until(tokens, speeds)
        start_at_ms = None if seconds is None else self._now_ms + round(seconds * SECOND)
        return Place(position, start_at_ms, waits_for_capacity=seconds != 0)

    def _who_can(self, order: Order | _InLine) -> frozenset[str]:
        kind = (order.model, order.revision, order.architecture)
        if kind not in self._able:
            able = (miner.hotkey for miner in self._miners if can_serve(miner, order))
            self._able[kind] = frozenset(able)
        return self._able[kind]


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


async def _tokens_at_work(
    session: AsyncSession, miners: Sequence[LiveNode]
) -> dict[str, dict[str, float]]:
    """Return what miners have yet to generate of the units they hold, by hotkey and order."""
    rest = col(Unit.samples) * tokens_a_sample() - col(Lease.tokens)
    statement = (
        select(Lease.hotkey, Lease.order_id, func.sum(case((rest > 0, rest), else_=0)))
        .select_from(Lease)
        .join(Unit, col(Unit.id) == col(Lease.unit_id))
        .join(Order, col(Order.id) == col(Lease.order_id))
        .where(
            col(Lease.kind) == LeaseKind.GENERATE,
            col(Lease.state) == LeaseState.LIVE,
            col(Lease.hotkey).in_([node.hotkey for node in miners]),
        )
        .group_by(col(Lease.hotkey), col(Lease.order_id))
    )
    held: dict[str, dict[str, float]] = {}
    for hotkey, order_id, tokens in (await session.exec(statement)).all():
        held.setdefault(hotkey, {})[order_id] = float(tokens)
    return held


async def _line(session: AsyncSession) -> list[_InLine]:
    """Return all orders that generate or wait to: the earliest window's end goes first."""
    uncut = (col(Order.lines_usable) - col(Order.cursor_line)) * col(Order.n)
    opened = (
        select(func.coalesce(func.sum(Unit.samples), 0))
        .where(col(Unit.order_id) == col(Order.id), col(Unit.state) == UnitState.OPEN)
        .correlate(Order)
        .scalar_subquery()
    )
    columns = [getattr(Order, name) for name in _InLine._fields[:-1]]
    statement = (
        sqlalchemy.select(*columns, (uncut + opened) * tokens_a_sample())
        .where(col(Order.status).in_(GENERATING))
        .order_by(col(Order.expires_at_ms), col(Order.id))
    )
    # SQLModel's own select is typed for four columns at most.
    rows = (await session.exec(cast(Any, statement))).all()
    return [_InLine(*row[:-1], tokens=float(row[-1])) for row in rows]
