"""Generation leases: which unit a miner gets, cut when first leased."""

import asyncio
from collections import Counter
from functools import cache
from typing import Any

from bittensor_core import Keypair
from sqlalchemy import bindparam, union_all
from sqlmodel import col, func, select
from sqlmodel.ext.asyncio.session import AsyncSession

from gateway.orders import transitions, units
from gateway.orders.content import is_small, unit_work
from gateway.orders.leases import (
    issued_at,
    new_lease,
    refuse_unreliable,
    statement_of,
)
from gateway.orders.nodes import LiveNode, can_serve, holding, known_node, live_nodes
from gateway.orders.planner import share_of, unit_lines
from gateway.orders.policy import Policy, generation_end, is_excluded
from gateway.orders.records import refuse_suspended
from gateway.orders.rows import generating, lock_order
from gateway.orders.serving import GENERATING, ranked_orders, speed_together
from gateway.orders.stacks import yields
from gateway.orders.straggling import stragglers
from gateway.store.engine import Store
from gateway.store.tables import (
    Lease,
    LeaseKind,
    LeaseState,
    Node,
    NodeRole,
    Order,
    OrderStatus,
    Record,
    Review,
    ReviewState,
    Unit,
    UnitState,
)
from protocol.keys import sign_statement
from protocol.messages import Lease as LeaseMessage
from protocol.messages import LeaseRequest, LoadedModel
from scoring.growth import leases_allowed

ORDERS_LOOKED_AT = 20
UNITS_LOOKED_AT = 100

# Made once, for all leases.
_HELD = (
    select(func.count())
    .select_from(Lease)
    .where(col(Lease.kind) == LeaseKind.GENERATE, col(Lease.state) == LeaseState.LIVE)
)
_HELD_AND_VERIFIED = select(
    _HELD.where(col(Lease.hotkey) == bindparam("hotkey")).scalar_subquery(),
    _HELD.where(col(Lease.coldkey) == bindparam("owner")).scalar_subquery(),
    select(func.coalesce(func.sum(Record.verified), 0))
    .where(col(Record.owner) == bindparam("owner"))
    .scalar_subquery(),
)
_OPEN = (
    select(Unit)
    .where(col(Unit.order_id) == bindparam("order_id"), col(Unit.state) == UnitState.OPEN)
    .order_by(col(Unit.created_at_ms), col(Unit.id))
    .limit(UNITS_LOOKED_AT)
    .with_for_update(key_share=True)
)


async def lease_generation(
    store: Store,
    keypair: Keypair,
    hotkey: str,
    request: LeaseRequest,
    policy: Policy,
    now_ms: int,
) -> LeaseMessage | None:
    """Lease a miner a unit of the order that goes first of the model it has loaded, or None.

    Units that were void or lapsed go first, for a while to miners of other owners than those who
    failed them, where such live; then a new unit is cut. None, too, while many units of the model
    wait for audit, and for a miner that holds as many leases as it may, or its owner: few at first,
    more with what was verified of it.

    Where nothing else waits, a miner may be given a unit that a slow one is still at: the first
    result that comes counts.

    A miner of a stack that was not measured gets work of a model that has measured ones only while
    none of those is at it, or once a good part of an order's window is over.

    Raises:
        GatewayError: 403 where the node has not announced itself as a miner of this model, is
            convicted, or suspended for it, or left too many of its leases unanswered.
    """
    async with store.glance() as session:
        node = await known_node(session, hotkey, NodeRole.MINER, request.loaded)
        await refuse_suspended(session, node, request.loaded, now_ms)
        await refuse_unreliable(session, node, request.loaded, policy, now_ms)
        if await audit_backlog(session, request.loaded) >= policy.audit_backlog:
            return None
        miners = await live_nodes(session, NodeRole.MINER, policy, now_ms)
        others = [miner for miner in miners if miner.hotkey != hotkey]
        validators = await live_nodes(session, NodeRole.VALIDATOR, policy, now_ms)
        last = await yields(session, node, request.loaded, others, validators, now_ms)
        over = policy.window_share if last else 0.0
        speed = speed_together(holding(miners, request.loaded))
        order_ids = await ranked_orders(session, request.loaded, over, speed, now_ms)
    for order_id in order_ids[:ORDERS_LOOKED_AT]:
        granted = await _claim(store, order_id, node, others, request.max_samples, policy, now_ms)
        if granted is not None:
            return await _handed_out(store, keypair, *granted, policy)
    if last:
        return None
    async with store.glance() as session:
        late = await stragglers(session, node, request.loaded, others, now_ms)
    for straggler in late:
        granted = await _claim_second(store, straggler, node, policy, now_ms)
        if granted is not None:
            return await _handed_out(store, keypair, *granted, policy)
    return None


async def audit_backlog(session: AsyncSession, loaded: LoadedModel) -> int:
    """Return how many units of a model commit wait for audit, a first or a second, or are at it."""
    return (await audit_backlogs(session, loaded)).total()


async def audit_backlogs(
    session: AsyncSession, loaded: LoadedModel | None = None, *, taken: bool = True
) -> Counter[tuple[str, str]]:
    """Return ``audit_backlog`` by model and revision.

    Args:
        loaded: the one commit that is asked for; None asks for all.
        taken: whether what validators are at counts too.
    """
    values = {} if loaded is None else {"model": loaded.model, "revision": loaded.revision}
    statement = _backlogs(of_one=loaded is not None, taken=taken)
    backlogs: Counter[tuple[str, str]] = Counter()
    for model, revision, waiting in (await session.exec(statement, params=values)).all():
        backlogs[model, revision] += waiting
    return backlogs


@cache
def _backlogs(*, of_one: bool, taken: bool) -> Any:
    submitted, opened = [UnitState.SUBMITTED], [ReviewState.OPEN]
    if taken:
        submitted.append(UnitState.AUDITING)
        opened.append(ReviewState.AUDITING)
    first = (
        select(Order.model, Order.revision, func.count())
        .join(Unit, col(Unit.order_id) == col(Order.id))
        .where(col(Unit.state).in_(submitted))
    )
    second = (
        select(Order.model, Order.revision, func.count())
        .join(Review, col(Review.order_id) == col(Order.id))
        .where(col(Review.state).in_(opened))
    )
    commit = (
        col(Order.model) == bindparam("model"),
        col(Order.revision) == bindparam("revision"),
    )
    counts = (
        statement.where(*commit if of_one else ()).group_by(col(Order.model), col(Order.revision))
        for statement in (first, second)
    )
    return union_all(*counts)


async def _claim(
    store: Store,
    order_id: str,
    node: Node,
    others: list[LiveNode],
    max_samples: int,
    policy: Policy,
    now_ms: int,
) -> tuple[Order, Unit, Lease] | None:
    async with store.write() as session:
        order = await lock_order(session, order_id)
        if order is None or order.status not in GENERATING:
            return None
        if not await _may_generate_more(session, node, policy):
            return None
        unit = await _open_unit(session, order, node, others, policy, now_ms)
        if unit is None and order.cursor_line < order.lines_usable:
            speeds = [holder.tokens_per_second for holder in holding(others, order)]
            share = share_of(node.tokens_per_second, speeds)
            lines = unit_lines(order, policy, max_samples, share, node.tokens_per_second)
            unit = units.root_unit(order, lines, now_ms)
        if unit is None:
            return None
        unit.state = UnitState.LEASED
        lease = await _leased(session, order, unit, node, policy, now_ms)
        if order.status == OrderStatus.VALIDATING:
            await transitions.start(session, order.id, now_ms)
    return order, unit, lease


async def _claim_second(
    store: Store, unit_id: str, node: Node, policy: Policy, now_ms: int
) -> tuple[Order, Unit, Lease] | None:
    """Lease a unit that one other miner is at, if it still is."""
    async with store.write() as session:
        seen = await session.get(Unit, unit_id)
        order = None if seen is None else await lock_order(session, seen.order_id)
        if order is None or order.status != OrderStatus.IN_PROGRESS:
            return None
        unit = await session.get(
            Unit, unit_id, with_for_update={"key_share": True}, populate_existing=True
        )
        if unit is None or unit.state != UnitState.LEASED:
            return None
        if len(await generating(session, unit_id)) != 1:
            return None
        if not await _may_generate_more(session, node, policy):
            return None
        lease = await _leased(session, order, unit, node, policy, now_ms)
    return order, unit, lease


async def _may_generate_more(session: AsyncSession, node: Node, policy: Policy) -> bool:
    whose = {"hotkey": node.hotkey, "owner": node.coldkey}
    row = (await session.exec(_HELD_AND_VERIFIED, params=whose)).one()
    own, of_owner, verified = map(int, row)
    return own < policy.leases_at_once and of_owner < leases_allowed(verified)


async def _leased(
    session: AsyncSession, order: Order, unit: Unit, node: Node, policy: Policy, now_ms: int
) -> Lease:
    """Insert the lease of the next attempt at a locked unit and return it."""
    unit.attempt += 1
    session.add_all((order, unit))
    await session.flush()
    ends_at_ms = generation_end(policy, unit.samples, order.max_tokens, order.expires_at_ms, now_ms)
    lease = new_lease(unit, node, LeaseKind.GENERATE, unit.attempt, ends_at_ms, policy, now_ms)
    session.add(lease)
    return lease


async def _open_unit(
    session: AsyncSession,
    order: Order,
    node: Node,
    others: list[LiveNode],
    policy: Policy,
    now_ms: int,
) -> Unit | None:
    waiting = (await session.exec(_OPEN, params={"order_id": order.id})).all()
    if not waiting:
        return None
    able = {other.coldkey for other in others if can_serve(other, order)}
    for unit in waiting:
        failed = set(units.failures(unit))
        waits = not able <= failed and is_excluded(policy, unit.offered_at_ms, now_ms)
        if node.coldkey not in failed or not waits:
            return unit
    return None


async def _handed_out(
    store: Store, keypair: Keypair, order: Order, unit: Unit, lease: Lease, policy: Policy
) -> LeaseMessage:
    """Commit to the lease's work by a signature and return its message."""
    work = await unit_work(store.objects, order, unit)
    if is_small(work):
        statement = statement_of(lease, work)
    else:
        statement = await asyncio.to_thread(statement_of, lease, work)
    signature = sign_statement(keypair, statement)
    async with store.write() as session:
        lease.signature = signature
        session.add(lease)
    return LeaseMessage(
        lease_id=lease.id,
        attempt=lease.attempt,
        expires_at=lease.expires_at_ms / 1000,
        ends_at=lease.ends_at_ms / 1000,
        heartbeat_seconds=policy.heartbeat_ms / 1000,
        issued_at=issued_at(lease),
        work=work,
        signature=signature,
    )
