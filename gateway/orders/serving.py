"""What orders are ranked by, read from the rows: what waits, and who was served of late."""

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

import sqlalchemy
from sqlalchemy import Double, bindparam
from sqlmodel import and_, col, exists, func, or_, select
from sqlmodel.ext.asyncio.session import AsyncSession

from gateway.orders.nodes import LiveNode
from gateway.orders.policy import MINUTE
from gateway.orders.priority import Candidate, ranked
from gateway.orders.sizes import tokens_a_sample
from gateway.store.tables import (
    Lease,
    LeaseKind,
    LeaseState,
    Order,
    OrderStatus,
    Unit,
    UnitState,
)
from protocol.messages import LoadedModel

GENERATING = (OrderStatus.VALIDATING, OrderStatus.IN_PROGRESS)
# Customers are compared by what they have leased and were served within this.
LATELY_MS = 5 * MINUTE
# Results of an order whose window ends within this are judged before all others.
SOON_MS = 30 * MINUTE
# Of one model commit, those whose windows end first.
CANDIDATES = 500

# Made once, for all queries: making one takes longer than its rows.
_OF_COMMIT = (
    col(Order.model) == bindparam("model"),
    col(Order.revision) == bindparam("revision"),
)
_TO_JUDGE = (
    select(
        Order.id,
        Order.account_id,
        func.sum(col(Unit.samples) * tokens_a_sample()),
        Order.expires_at_ms,
    )
    .join(Unit, col(Unit.order_id) == col(Order.id))
    .where(col(Unit.state) == UnitState.SUBMITTED, *_OF_COMMIT)
    .group_by(col(Order.id), col(Order.account_id), col(Order.expires_at_ms))
    .order_by(col(Order.expires_at_ms), col(Order.id))
    .limit(CANDIDATES)
)
# By what their units come to: of an audit no tokens are counted.
_LEASED = (
    select(Order.account_id, func.sum(col(Unit.samples) * tokens_a_sample()))
    .join(Lease, col(Lease.order_id) == col(Order.id))
    .join(Unit, col(Unit.id) == col(Lease.unit_id))
    .where(col(Lease.kind) == bindparam("kind"), *_OF_COMMIT)
    .group_by(col(Order.account_id))
)
_LIVE = _LEASED.where(col(Lease.state) == LeaseState.LIVE)
# A lease is answered before it expires, so that the index on that finds them.
_LATELY = _LEASED.where(
    col(Lease.state) == LeaseState.ANSWERED,
    col(Lease.expires_at_ms) > bindparam("since_ms"),
    col(Lease.ended_at_ms) > bindparam("since_ms"),
)
_IS_OPEN = and_(col(Unit.order_id) == col(Order.id), col(Unit.state) == UnitState.OPEN)
_UNCUT = (col(Order.lines_usable) - col(Order.cursor_line)) * col(Order.n)
_BEGUN = col(Order.created_at_ms) * bindparam("rest", type_=Double) + col(
    Order.expires_at_ms
) * bindparam("over", type_=Double)
_IN_UNITS = (
    select(func.coalesce(func.sum(Unit.samples), 0))
    .where(_IS_OPEN)
    .correlate(Order)
    .scalar_subquery()
)
# SQLModel's own select is typed for four columns at most.
_CANDIDATES: Any = (
    sqlalchemy.select(
        col(Order.id),
        col(Order.account_id),
        (_UNCUT + _IN_UNITS) * tokens_a_sample(),
        col(Order.expires_at_ms),
    )
    .where(
        col(Order.status).in_(GENERATING),
        *_OF_COMMIT,
        col(Order.expires_at_ms) > bindparam("now_ms"),
        bindparam("now_ms") >= _BEGUN,
        or_(col(Order.cursor_line) < col(Order.lines_usable), exists().where(_IS_OPEN)),
    )
    .order_by(col(Order.expires_at_ms), col(Order.id))
    .limit(CANDIDATES)
)


async def ranked_orders(
    session: AsyncSession, loaded: LoadedModel, over: float, speed: float | None, now_ms: int
) -> list[str]:
    """Return the orders of a model commit that have samples to generate, first things first.

    Args:
        over: share of an order's window that must have passed.
        speed: tokens a second of all miners that hold the model; None where nobody knows.
    """
    candidates = await _candidates(session, loaded, over, now_ms)
    accounts = {one.account_id for one in candidates}
    kind = LeaseKind.GENERATE
    served = await served_lately(session, loaded, kind, accounts, now_ms)
    return [one.order_id for one in ranked(candidates, served, speed, now_ms)]


async def ranked_accounts(session: AsyncSession, loaded: LoadedModel, now_ms: int) -> list[str]:
    """Return the customers with results of a model commit to judge, those that go first first.

    An order whose window ends soon goes before all others. Empty where all are one customer's.
    """
    rows = (await session.exec(_TO_JUDGE, params=_commit(loaded))).all()
    accounts = {row[1] for row in rows}
    if len(accounts) < 2:
        return []
    served = await served_lately(session, loaded, LeaseKind.AUDIT, accounts, now_ms)
    candidates = [Candidate(row[0], row[1], float(row[2]), row[3]) for row in rows]
    fair = ranked(candidates, served, None, now_ms)
    soon = [one for one in fair if one.expires_at_ms < now_ms + SOON_MS]
    soon.sort(key=lambda one: one.expires_at_ms)
    return list(dict.fromkeys(one.account_id for one in (*soon, *fair)))


async def served_lately(
    session: AsyncSession,
    loaded: LoadedModel,
    kind: LeaseKind,
    accounts: Collection[str],
    now_ms: int,
) -> Counter[str]:
    """Return the tokens that accounts have leased of a model commit, or were answered of late.

    Not looked up where there is nothing to compare.
    """
    served: Counter[str] = Counter()
    if len(accounts) < 2:
        return served
    live = {**_commit(loaded), "kind": kind}
    lately = {**live, "since_ms": now_ms - LATELY_MS}
    for statement, values in ((_LIVE, live), (_LATELY, lately)):
        rows = await session.exec(statement, params=values)
        for account_id, tokens in rows.all():
            served[account_id] += float(tokens or 0)  # pyright: ignore[reportArgumentType]
    return served


def speed_together(nodes: Sequence[LiveNode]) -> float | None:
    """Return the tokens a second of nodes; one that was never measured counts as their mean."""
    known = [node.tokens_per_second for node in nodes if node.tokens_per_second]
    return len(nodes) * sum(known) / len(known) if known else None


async def _candidates(
    session: AsyncSession, loaded: LoadedModel, over: float, now_ms: int
) -> list[Candidate]:
    moment = {"over": over, "rest": 1 - over, "now_ms": now_ms}
    rows = (await session.exec(_CANDIDATES, params={**_commit(loaded), **moment})).all()
    return [Candidate(row[0], row[1], float(row[2]), row[3]) for row in rows]


def _commit(loaded: LoadedModel) -> dict[str, Any]:
    return {"model": loaded.model, "revision": loaded.revision}
