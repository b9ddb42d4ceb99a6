"""Audit leases: which result a validator gets to judge."""

import asyncio
from collections.abc import Sequence

from bittensor_core import Keypair
from sqlalchemy.orm import aliased
from sqlmodel import col, exists, select
from sqlmodel.ext.asyncio.session import AsyncSession

from gateway.orders.content import unit_work
from gateway.orders.leases import issued_at, may_hold_more, refuse_unreliable
from gateway.orders.nodes import can_serve, known_node, live_nodes
from gateway.orders.policy import Policy, audit_end, is_excluded
from gateway.orders.rows import lock_node
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
from protocol.messages import AuditLease, LeaseRecord, LeaseRequest, LoadedModel, Result

TAKEN_BEFORE = (LeaseState.ANSWERED, LeaseState.EXPIRED)


async def lease_audit(
    store: Store,
    keypair: Keypair,
    hotkey: str,
    request: LeaseRequest,
    policy: Policy,
    now_ms: int,
) -> AuditLease | None:
    """Lease a validator the oldest result of the model it has loaded; None when none waits.

    A validator never judges its own owner's work. What it could not judge once waits a while for
    validators of other owners, where such live. One that holds as many leases as it may gets None.

    Raises:
        GatewayError: 403 where the node has not announced itself as a validator, or left too many
            leases unanswered.
    """
    async with store.read() as session:
        node = await known_node(session, hotkey, NodeRole.VALIDATOR)
        await refuse_unreliable(session, hotkey, LeaseKind.AUDIT, policy, now_ms)
        validators = await live_nodes(session, NodeRole.VALIDATOR, policy, now_ms)
    claim = await _claim(store, node, request.loaded, validators, policy, now_ms)
    if claim is None:
        return None
    order, unit, result_lease, lease = claim
    document = await store.objects.get(result_lease.object_key or "")
    return AuditLease(
        lease_id=lease.id,
        attempt=result_lease.attempt,
        expires_at=lease.expires_at_ms / 1000,
        ends_at=lease.ends_at_ms / 1000,
        heartbeat_seconds=policy.heartbeat_ms / 1000,
        work=await unit_work(store.objects, order, unit),
        miner=result_lease.hotkey,
        record=LeaseRecord(
            lease_id=result_lease.id,
            issued_at=issued_at(result_lease),
            gateway=keypair.ss58_address,
            signature=result_lease.signature or "",
        ),
        result=await asyncio.to_thread(Result.model_validate_json, document),
    )


async def _claim(
    store: Store,
    node: Node,
    loaded: LoadedModel,
    validators: Sequence[Node],
    policy: Policy,
    now_ms: int,
) -> tuple[Order, Unit, Lease, Lease] | None:
    """Lock and lease the oldest result that this validator may judge."""
    async with store.write() as session:
        found = await _oldest(session, node, loaded, fresh=True)
        if found is None:
            found = await _oldest(session, node, loaded, fresh=False)
            if found is None:
                return None
            waits = is_excluded(policy, found[1].offered_at_ms, now_ms)
            if waits and await _has_fresh_judge(session, found, validators):
                return None
        # The lock makes requests of one validator that come at once count each other's leases.
        await lock_node(session, node.hotkey)
        if not await may_hold_more(session, node.hotkey, LeaseKind.AUDIT, policy):
            return None
        order, unit, result_lease = found
        prompts = (unit.end_line - unit.first_line) * order.longest_prompt
        ends_at_ms = audit_end(policy, result_lease.tokens + prompts, order.expires_at_ms, now_ms)
        lease = Lease(
            unit_id=unit.id,
            order_id=order.id,
            kind=LeaseKind.AUDIT,
            hotkey=node.hotkey,
            coldkey=node.coldkey,
            attempt=result_lease.attempt,
            granted_at_ms=now_ms,
            expires_at_ms=min(now_ms + policy.lease_ms, ends_at_ms),
            ends_at_ms=ends_at_ms,
            progress_at_ms=now_ms,
            audited_lease_id=result_lease.id,
        )
        unit.state = UnitState.AUDITING
        session.add_all((unit, lease))
    return order, unit, result_lease, lease


async def _has_fresh_judge(
    session: AsyncSession, found: tuple[Order, Unit, Lease], validators: Sequence[Node]
) -> bool:
    """Say whether a validator lives whose owner may judge a result and has not had it before."""
    order, _, result_lease = found
    statement = select(Lease.coldkey).where(
        col(Lease.audited_lease_id) == result_lease.id, col(Lease.state).in_(TAKEN_BEFORE)
    )
    barred = {*(await session.exec(statement)).all(), result_lease.coldkey}
    return any(can_serve(node, order) and node.coldkey not in barred for node in validators)


async def _oldest(
    session: AsyncSession, node: Node, loaded: LoadedModel, *, fresh: bool
) -> tuple[Order, Unit, Lease] | None:
    """Return the oldest waiting result; ``fresh`` leaves out what this owner had before."""
    result_lease, earlier = aliased(Lease), aliased(Lease)
    statement = (
        select(Order, Unit, result_lease)
        .join(Unit, col(Unit.order_id) == col(Order.id))
        .join(result_lease, col(result_lease.id) == col(Unit.result_lease_id))
        .where(
            col(Unit.state) == UnitState.SUBMITTED,
            col(Order.model) == loaded.model,
            col(Order.revision) == loaded.revision,
            col(result_lease.hotkey) != node.hotkey,
            col(result_lease.coldkey) != node.coldkey,
        )
        .order_by(col(Unit.submitted_at_ms), col(Unit.id))
        .limit(1)
        .with_for_update(of=Unit, skip_locked=True, key_share=True)
    )
    if fresh:
        had_before = exists().where(
            col(earlier.audited_lease_id) == col(result_lease.id),
            col(earlier.coldkey) == node.coldkey,
            col(earlier.state).in_(TAKEN_BEFORE),
        )
        statement = statement.where(~had_before)
    row = (await session.exec(statement)).first()
    return None if row is None else (row[0], row[1], row[2])
