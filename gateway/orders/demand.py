"""The demand board: what work waits, so that nodes can choose what to load."""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import sqlalchemy
from sqlmodel import and_, col, func, or_, select
from sqlmodel.ext.asyncio.session import AsyncSession

from gateway.orders.nodes import live_nodes
from gateway.orders.policy import REDRESS_MS, Policy
from gateway.orders.serving import GENERATING
from gateway.orders.sizes import tokens_a_sample
from gateway.store.engine import Store
from gateway.store.tables import (
    NodeRole,
    Order,
    OrderStatus,
    Review,
    ReviewState,
    Unit,
    UnitState,
)
from protocol.messages import Demand, DemandBoard

ROWS = 1_000
# However many nodes look at the board, it is drawn up no more often.
FRESH_MS = 200
# Other processes of the gateway bring work too, without news here.
LOOK_SECONDS = 1.0
AT_WORK = (*GENERATING, OrderStatus.CANCELLING)

ModelCommit = tuple[str, str]


@dataclass
class _Waiting:
    """What waits of one commit."""

    architecture: str
    deadline_ms: int
    samples: int = 0
    audits: int = 0
    tokens: dict[UnitState, float] = field(default_factory=lambda: dict.fromkeys(UnitState, 0.0))

    def add(self, state: UnitState, samples: int, a_sample: float) -> None:
        """Count samples that wait for a miner or a validator, or are with a miner."""
        self.tokens[state] += samples * a_sample
        if state == UnitState.OPEN:
            self.samples += samples
        elif state == UnitState.SUBMITTED:
            self.audits += samples


class Board:
    """The demand board as it is shown at this gateway.

    Args:
        now_ms: Unix milliseconds.
    """

    def __init__(self, store: Store, policy: Policy, now_ms: Callable[[], int]) -> None:
        self._store = store
        self._policy = policy
        self._now_ms = now_ms
        self._shown: DemandBoard | None = None
        self._drawn_at_ms = 0
        self._lock = asyncio.Lock()

    async def read(self) -> DemandBoard:
        """Return the board, which is a moment old at most."""
        async with self._lock:
            now_ms = self._now_ms()
            age = now_ms - self._drawn_at_ms
            if self._shown is None or not 0 <= age < FRESH_MS:
                self._shown = await demand(self._store, self._policy, now_ms)
                self._drawn_at_ms = now_ms
            return self._shown

    async def filled(self, seconds: float, is_over: Callable[[], bool]) -> DemandBoard:
        """Return the board once there is work on it, or after ``seconds`` of none.

        Args:
            is_over: whether nobody waits any more.
        """
        until = asyncio.get_running_loop().time() + seconds
        while True:
            heard = self._store.news
            board = await self.read()
            left = until - asyncio.get_running_loop().time()
            if board.demands or left <= 0 or is_over():
                return board
            await self._store.wait_for_news(min(left, LOOK_SECONDS), heard)


async def demand(store: Store, policy: Policy, now_ms: int) -> DemandBoard:
    """Return the work that waits, by model commit, the earliest end of a window first."""
    async with store.glance() as session:
        waiting = await _waiting(session, now_ms)
        holders = {role: await _holders(session, role, policy, now_ms) for role in NodeRole}
    rows = [
        Demand(
            model=model,
            revision=revision,
            architecture=found.architecture,
            waiting_samples=found.samples,
            waiting_audits=found.audits,
            deadline=found.deadline_ms / 1000,
            waiting_tokens=round(found.tokens[UnitState.OPEN]),
            leased_tokens=round(found.tokens[UnitState.LEASED]),
            audit_tokens=round(found.tokens[UnitState.SUBMITTED]),
            miners=holders[NodeRole.MINER][model, revision],
            validators=holders[NodeRole.VALIDATOR][model, revision],
        )
        for (model, revision), found in waiting.items()
    ]
    return DemandBoard(demands=sorted(rows, key=lambda row: (row.deadline, row.model))[:ROWS])


async def _waiting(session: AsyncSession, now_ms: int) -> dict[ModelCommit, _Waiting]:
    uncut = (col(Order.lines_usable) - col(Order.cursor_line)) * col(Order.n)
    columns = (
        Order.id,
        Order.status,
        Order.model,
        Order.revision,
        Order.architecture,
        Order.expires_at_ms,
        uncut,
        tokens_a_sample(),
    )
    at_work = and_(col(Order.status).in_(AT_WORK), col(Order.expires_at_ms) > now_ms)
    # Of an ended order, what was delivered may wait to be judged again.
    again = select(Review.order_id).where(
        col(Review.delivered), col(Review.state) == ReviewState.OPEN
    )
    statement = sqlalchemy.select(*columns).where(  # pyright: ignore[reportCallIssue, reportArgumentType]
        or_(at_work, col(Order.id).in_(again))
    )
    # SQLModel's own select is typed for four columns at most.
    orders = (await session.exec(cast(Any, statement))).all()
    in_units = await _in_units(session)
    reviews = await _reviews(session)
    found: dict[ModelCommit, _Waiting] = {}
    for order_id, status, model, revision, architecture, expires, lines, size in orders:
        counts = Counter(in_units.get(order_id, {}))
        counts[UnitState.SUBMITTED] += reviews.get(order_id, 0)
        if status in GENERATING:
            counts[UnitState.OPEN] += lines
        if not counts.total():
            continue
        if status not in AT_WORK:
            # It is in no hurry, so it comes behind what has yet to be delivered.
            expires = now_ms + REDRESS_MS
        row = found.setdefault((model, revision), _Waiting(architecture, expires))
        row.deadline_ms = min(row.deadline_ms, expires)
        for state, samples in counts.items():
            row.add(state, samples, float(size))
    return found


async def _in_units(session: AsyncSession) -> dict[str, dict[UnitState, int]]:
    """Return the samples of the units that wait or are with a miner, by order and state."""
    states = (UnitState.OPEN, UnitState.LEASED, UnitState.SUBMITTED)
    statement = (
        select(Unit.order_id, Unit.state, func.sum(Unit.samples))
        .where(col(Unit.state).in_(states))
        .group_by(col(Unit.order_id), col(Unit.state))
    )
    counts: dict[str, dict[UnitState, int]] = {}
    for order_id, state, count in (await session.exec(statement)).all():
        counts.setdefault(order_id, {})[UnitState(state)] = int(count)
    return counts


async def _reviews(session: AsyncSession) -> dict[str, int]:
    """Return the samples of the units that wait for a second opinion, by order."""
    statement = (
        select(Review.order_id, func.sum(Unit.samples))
        .join(Unit, col(Unit.id) == col(Review.unit_id))
        .where(col(Review.state) == ReviewState.OPEN)
        .group_by(col(Review.order_id))
    )
    return {order_id: int(count) for order_id, count in (await session.exec(statement)).all()}


async def _holders(
    session: AsyncSession, role: NodeRole, policy: Policy, now_ms: int
) -> Counter[ModelCommit]:
    """Return how many live nodes of a role hold a model commit or load it."""
    return Counter(
        (model, revision)
        for node in await live_nodes(session, role, policy, now_ms)
        for model, revision in {
            (node.loaded_model, node.loaded_revision),
            (node.loading_model, node.loading_revision),
        }
        if model is not None and revision is not None
    )
