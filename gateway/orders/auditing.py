"""Audit leases: which result a validator gets to judge."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from bittensor_core import Keypair
from sqlalchemy import bindparam
from sqlalchemy.orm import aliased
from sqlmodel import col, exists, or_, select
from sqlmodel.ext.asyncio.session import AsyncSession

from gateway.orders.content import is_small, unit_work
from gateway.orders.generation import audit_backlogs
from gateway.orders.judges import TAKEN_BEFORE, fresh_judges, refuse_distrusted
from gateway.orders.leases import issued_at, may_hold_more, new_lease, refuse_unreliable
from gateway.orders.nodes import LiveNode, known_node, live_nodes
from gateway.orders.policy import REDRESS_MS, Policy, audit_end, is_excluded
from gateway.orders.rows import lock_node
from gateway.orders.serving import ranked_accounts
from gateway.store.engine import Store
from gateway.store.objects import Objects
from gateway.store.tables import (
    Lease,
    LeaseKind,
    Node,
    NodeRole,
    Order,
    Review,
    ReviewState,
    Unit,
    UnitState,
)
from protocol.messages import AuditTerms, LeaseRecord, LeaseRequest, LoadedModel

# Made once, for all queries.
_RESULT, _EARLIER = aliased(Lease), aliased(Lease)
_MAY_JUDGE = (
    col(Order.model) == bindparam("model"),
    col(Order.revision) == bindparam("revision"),
    col(_RESULT.hotkey) != bindparam("hotkey"),
    col(_RESULT.coldkey) != bindparam("owner"),
)
_HAD_BEFORE = exists().where(
    # A known-answer unit has the samples of another result.
    or_(
        col(_EARLIER.audited_lease_id) == col(_RESULT.id),
        col(_EARLIER.audited_lease_id) == col(Unit.source_lease_id),
    ),
    col(_EARLIER.coldkey) == bindparam("owner"),
    col(_EARLIER.state).in_(TAKEN_BEFORE),
)
_REVIEW: Any = (
    select(Order, Unit, _RESULT, Review)
    .join(Unit, col(Unit.id) == col(Review.unit_id))
    .join(Order, col(Order.id) == col(Review.order_id))
    .join(_RESULT, col(_RESULT.id) == col(Review.result_lease_id))
    .where(
        col(Review.state) == ReviewState.OPEN,
        or_(~col(Review.delivered), col(Review.offered_at_ms) <= bindparam("delivered_before_ms")),
        *_MAY_JUDGE,
        ~_HAD_BEFORE,
    )
    .order_by(col(Review.delivered), col(Review.offered_at_ms), col(Review.id))
    .limit(1)
    .with_for_update(of=Review, skip_locked=True, key_share=True)
)


@dataclass(frozen=True)
class AuditGrant:
    """An audit lease whose result, which may be large, stays as it is stored."""

    terms: AuditTerms
    result_key: str

    async def encoded(self, objects: Objects) -> tuple[int, AsyncIterator[bytes]]:
        """Return the JSON of its ``AuditLease``: its size in bytes, and its pieces.

        Raises:
            ObjectMissing: the result is gone.
        """
        encode = self.terms.model_dump_json
        head = encode() if is_small(self.terms.work) else await asyncio.to_thread(encode)
        before = f'{head[:-1]},"result":'.encode()
        size = await objects.size(self.result_key)
        return len(before) + size + 1, self._pieces(objects, before, size)

    async def _pieces(self, objects: Objects, before: bytes, size: int) -> AsyncIterator[bytes]:
        yield before
        async for piece in objects.stream(self.result_key, 0, size):
            yield piece
        yield b"}"


async def lease_audit(
    store: Store,
    keypair: Keypair,
    hotkey: str,
    request: LeaseRequest,
    policy: Policy,
    now_ms: int,
) -> AuditGrant | None:
    """Lease a validator the oldest result of the model it has loaded; None when none waits.

    A validator never judges its own owner's work. What it could not judge once waits a while for
    validators of other owners, where such live. One that holds as many leases as it may gets None.

    Raises:
        GatewayError: 403 where the node has not announced itself as a validator of this model, is
            not believed for now, or left too many leases unanswered.
    """
    async with store.glance() as session:
        node = await known_node(session, hotkey, NodeRole.VALIDATOR, request.loaded)
        await refuse_unreliable(session, node, request.loaded, policy, now_ms)
        await refuse_distrusted(session, node.coldkey, now_ms)
        # Most that wait are woken in vain: they take no lock.
        if not (await audit_backlogs(session, request.loaded, taken=False)).total():
            return None
        validators = await live_nodes(session, NodeRole.VALIDATOR, policy, now_ms)
        accounts = await ranked_accounts(session, request.loaded, now_ms)
    claim = await _claim(store, node, request.loaded, validators, accounts, policy, now_ms)
    if claim is None:
        return None
    order, unit, result_lease, lease = claim
    terms = AuditTerms(
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
    )
    return AuditGrant(terms, result_lease.object_key or "")


async def _claim(
    store: Store,
    node: Node,
    loaded: LoadedModel,
    validators: Sequence[LiveNode],
    accounts: Sequence[str],
    policy: Policy,
    now_ms: int,
) -> tuple[Order, Unit, Lease, Lease] | None:
    """Lock and lease a second opinion that waits, or the oldest result, if it may judge any.

    Of several customers' results, those of the one that goes first.

    What was delivered is judged again where nothing else waits, or once it has waited for long.
    """
    async with store.write() as session:
        overdue = now_ms - policy.review_ms
        found = await _review(session, node, loaded, delivered_before_ms=overdue)
        review = None if found is None else found[3]
        for account_id in (*accounts, None):
            found = found or await _oldest(session, node, loaded, fresh=True, account_id=account_id)
        if found is None:
            found = await _review(session, node, loaded, delivered_before_ms=now_ms)
            review = None if found is None else found[3]
        if found is None:
            found = await _oldest(session, node, loaded, fresh=False)
            if found is None:
                return None
            waits = is_excluded(policy, found[1].offered_at_ms, now_ms)
            if waits and await fresh_judges(session, found[0], found[2], validators):
                return None
        # The lock makes requests of one validator that come at once count each other's leases.
        await lock_node(session, node.hotkey)
        if not await may_hold_more(session, node.hotkey, LeaseKind.AUDIT, policy):
            return None
        order, unit, result_lease = found[:3]
        prompts = (unit.end_line - unit.first_line) * order.longest_prompt
        delivered = review is not None and review.delivered
        window_end_ms = now_ms + REDRESS_MS if delivered else order.expires_at_ms
        ends_at_ms = audit_end(policy, result_lease.tokens + prompts, window_end_ms, now_ms)
        attempt = result_lease.attempt
        lease = new_lease(
            unit, node, LeaseKind.AUDIT, attempt, ends_at_ms, policy, now_ms, result_lease
        )
        if review is None:
            unit.state = UnitState.AUDITING
        else:
            lease.review_id = review.id
            review.state = ReviewState.AUDITING
            session.add(review)
        session.add_all((unit, lease))
    return order, unit, result_lease, lease


async def _review(
    session: AsyncSession, node: Node, loaded: LoadedModel, *, delivered_before_ms: int
) -> tuple[Order, Unit, Lease, Review] | None:
    """Return the second opinion that waits longest and that this owner may give.

    Args:
        delivered_before_ms: one of what was delivered must have been offered by then.
    """
    values = _asked(node, loaded) | {"delivered_before_ms": delivered_before_ms}
    row = (await session.exec(_REVIEW, params=values)).first()
    return None if row is None else (row[0], row[1], row[2], row[3])


def _asked(node: Node, loaded: LoadedModel) -> dict[str, Any]:
    return {
        "model": loaded.model,
        "revision": loaded.revision,
        "hotkey": node.hotkey,
        "owner": node.coldkey,
    }


async def _oldest(
    session: AsyncSession,
    node: Node,
    loaded: LoadedModel,
    *,
    fresh: bool,
    account_id: str | None = None,
) -> tuple[Order, Unit, Lease] | None:
    """Return the oldest waiting result; ``fresh`` leaves out what this owner had before."""
    values = _asked(node, loaded)
    if account_id is not None:
        values["account_id"] = account_id
    statement = _oldest_result(fresh=fresh, of_account=account_id is not None)
    row = (await session.exec(statement, params=values)).first()
    return None if row is None else (row[0], row[1], row[2])


@cache
def _oldest_result(*, fresh: bool, of_account: bool) -> Any:
    statement = (
        select(Order, Unit, _RESULT)
        .join(Unit, col(Unit.order_id) == col(Order.id))
        .join(_RESULT, col(_RESULT.id) == col(Unit.result_lease_id))
        .where(col(Unit.state) == UnitState.SUBMITTED, *_MAY_JUDGE)
        .order_by(col(Unit.submitted_at_ms), col(Unit.id))
        .limit(1)
        .with_for_update(of=Unit, skip_locked=True, key_share=True)
    )
    if of_account:
        statement = statement.where(col(Order.account_id) == bindparam("account_id"))
    return statement.where(~_HAD_BEFORE) if fresh else statement
