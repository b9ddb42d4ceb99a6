"""A lease's life: granted, renewed by heartbeats, given back, or lapsed."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import bindparam
from sqlmodel import col, func, select
from sqlmodel.ext.asyncio.session import AsyncSession

from gateway.errors import GatewayError
from gateway.orders import life, units
from gateway.orders.policy import SECOND, Policy, is_unreliable
from gateway.orders.rows import generating, lock_order
from gateway.store.engine import Store
from gateway.store.tables import (
    Lease,
    LeaseKind,
    LeaseState,
    Node,
    NodeRole,
    Order,
    Review,
    ReviewState,
    Unit,
    UnitState,
)
from protocol.documents import lease_statement
from protocol.messages import Heartbeat, HeartbeatAnswer, LoadedModel, Work

LEASE_NOT_FOUND = (404, "lease_not_found", "This node holds no lease of this id.")
LEASE_OVER = (409, "lease_over", "The lease is over; drop its work and ask for another.")

# Statements of every request are made once: making one takes longer than its rows.
_ORDER_OF = select(Lease.order_id).where(col(Lease.id) == bindparam("lease_id"))
# The lease is read once its order is locked: before, another transaction may have ended it.
_WITH_UNIT = (
    select(Lease, Unit)
    .join(Unit, col(Unit.id) == col(Lease.unit_id))
    .where(col(Lease.id) == bindparam("lease_id"))
    .with_for_update(of=Unit, key_share=True)
    .execution_options(populate_existing=True)
)
_TO_READ = (
    select(Lease, Unit, Order)
    .join(Unit, col(Unit.id) == col(Lease.unit_id))
    .join(Order, col(Order.id) == col(Lease.order_id))
    .where(col(Lease.id) == bindparam("lease_id"))
)
_HELD_OF_KIND = (
    select(func.count())
    .select_from(Lease)
    .where(
        col(Lease.hotkey) == bindparam("hotkey"),
        col(Lease.kind) == bindparam("kind"),
        col(Lease.state) == LeaseState.LIVE,
    )
)
_ENDED_LATELY = (
    select(Lease.state, func.count())
    .join(Order, col(Order.id) == col(Lease.order_id))
    .where(
        col(Lease.hotkey) == bindparam("hotkey"),
        col(Lease.ended_at_ms) > bindparam("since_ms"),
        col(Lease.kind) == bindparam("kind"),
        col(Order.model) == bindparam("model"),
        col(Order.revision) == bindparam("revision"),
    )
    .group_by(col(Lease.state))
)


@dataclass
class Held:
    """A lease with its unit and its order, and the review that it is for, if any."""

    lease: Lease
    unit: Unit
    order: Order
    review: Review | None = None

    @property
    def live(self) -> bool:
        """Whether the lease is not over."""
        return self.lease.state == LeaseState.LIVE

    def end(self, state: LeaseState, now_ms: int) -> None:
        """Mark the lease as over."""
        self.lease.state = state
        self.lease.ended_at_ms = now_ms

    def save(self, session: AsyncSession) -> None:
        """Write what was changed of the rows with the transaction."""
        session.add_all((self.lease, self.unit, self.order))
        if self.review is not None:
            session.add(self.review)


def new_lease(
    unit: Unit,
    node: Node,
    kind: LeaseKind,
    attempt: int,
    ends_at_ms: int,
    policy: Policy,
    now_ms: int,
    audited: Lease | None = None,
) -> Lease:
    """Return a lease that begins now; it is the caller's to insert.

    Args:
        ends_at_ms: when it is over however often it is renewed.
        audited: the lease whose result is to be judged.
    """
    return Lease(
        unit_id=unit.id,
        order_id=unit.order_id,
        kind=kind,
        hotkey=node.hotkey,
        coldkey=node.coldkey,
        attempt=attempt,
        granted_at_ms=now_ms,
        expires_at_ms=min(now_ms + policy.lease_ms, ends_at_ms),
        ends_at_ms=ends_at_ms,
        progress_at_ms=now_ms,
        audited_lease_id=None if audited is None else audited.id,
        stack_json=node.stack_json,
    )


def issued_at(lease: Lease) -> int:
    """Return the time of a generation lease that the gateway signs, in Unix seconds."""
    return lease.granted_at_ms // 1000


def statement_of(lease: Lease, work: Work) -> dict[str, Any]:
    """Return what the gateway signs for a generation lease of ``work``."""
    return lease_statement(lease.id, lease.attempt, lease.hotkey, issued_at(lease), work)


async def hold(session: AsyncSession, lease_id: str) -> Held | None:
    """Return a lease with its unit and order, locked in that order; None for an unknown id."""
    named = {"lease_id": lease_id}
    order_id = (await session.exec(_ORDER_OF, params=named)).one_or_none()
    if order_id is None:
        return None
    order = await lock_order(session, order_id)
    row = (await session.exec(_WITH_UNIT, params=named)).one_or_none()
    if order is None or row is None:
        raise LookupError(f"lease {lease_id} has no order or no unit")
    lease, unit = row
    review = None if lease.review_id is None else await session.get(Review, lease.review_id)
    return Held(lease, unit, order, review)


async def hold_own(
    session: AsyncSession, hotkey: str, lease_id: str, kind: LeaseKind | None = None
) -> Held:
    """Return ``hold`` of a lease of ``hotkey``.

    Raises:
        GatewayError: 404 where there is none; another node's lease is answered as an unknown one.
    """
    held = await hold(session, lease_id)
    if held is None or not _belongs(held.lease, hotkey, kind):
        raise GatewayError(*LEASE_NOT_FOUND)
    return held


async def find_own(session: AsyncSession, hotkey: str, lease_id: str, kind: LeaseKind) -> Held:
    """Return the same as ``hold_own`` to read only, without waiting for a lock.

    Raises:
        GatewayError: 404 as ``hold_own``.
    """
    row = (await session.exec(_TO_READ, params={"lease_id": lease_id})).one_or_none()
    if row is None or not _belongs(row[0], hotkey, kind):
        raise GatewayError(*LEASE_NOT_FOUND)
    return Held(*row)


def _belongs(lease: Lease, hotkey: str, kind: LeaseKind | None) -> bool:
    return lease.hotkey == hotkey and kind in (None, lease.kind)


async def may_hold_more(
    session: AsyncSession, hotkey: str, kind: LeaseKind, policy: Policy
) -> bool:
    """Say whether a node holds fewer live leases of a kind than it may: nobody hoards the work."""
    whose = {"hotkey": hotkey, "kind": kind}
    return (await session.exec(_HELD_OF_KIND, params=whose)).one() < policy.leases_at_once


async def refuse_unreliable(
    session: AsyncSession, node: Node, loaded: LoadedModel, policy: Policy, now_ms: int
) -> None:
    """Refuse a node that gave back, or let lapse, too many of its latest leases of a commit.

    Of that commit alone: a model that brings engines down keeps nobody from the others.

    Raises:
        GatewayError: 403 ``leases_unanswered``.
    """
    kind = LeaseKind.GENERATE if node.role == NodeRole.MINER else LeaseKind.AUDIT
    values = {
        "hotkey": node.hotkey,
        "since_ms": now_ms - policy.unanswered_ms,
        "kind": kind,
        "model": loaded.model,
        "revision": loaded.revision,
    }
    rows = await session.exec(_ENDED_LATELY, params=values)
    ended = {state: count for state, count in rows.all()}
    unanswered = sum(ended.get(state, 0) for state in (LeaseState.RELEASED, LeaseState.EXPIRED))
    if is_unreliable(policy, ended.get(LeaseState.ANSWERED, 0), unanswered):
        raise GatewayError(
            403,
            "leases_unanswered",
            f"{unanswered} leases of this model commit ended without this node's answer within "
            f"{policy.unanswered_ms // SECOND} s; it is given work of it once they are older.",
        )


async def heartbeat(
    store: Store, hotkey: str, lease_id: str, message: Heartbeat, policy: Policy, now_ms: int
) -> HeartbeatAnswer:
    """Renew a lease and note its progress; one without progress for long, or at its end, is ended.

    Raises:
        GatewayError: 404 for a lease that this node does not hold.
    """
    async with store.write() as session:
        held = await hold_own(session, hotkey, lease_id)
        lease = held.lease
        if held.live:
            tokens = _credible(held, message.tokens)
            if tokens > lease.tokens:
                lease.tokens = tokens
                lease.progress_at_ms = now_ms
            stalled = now_ms - lease.progress_at_ms >= policy.stall_ms
            if not stalled and now_ms < lease.ends_at_ms:
                lease.expires_at_ms = min(now_ms + policy.lease_ms, lease.ends_at_ms)
            else:
                await _lapse(session, held, now_ms)
            held.save(session)
        stop = not held.live
    return HeartbeatAnswer(expires_at=lease.expires_at_ms / 1000, stop=stop)


def _credible(held: Held, tokens: int) -> int:
    """Return a holder's progress, no more than there is to generate."""
    if held.lease.kind == LeaseKind.AUDIT:
        return tokens
    return min(tokens, held.unit.samples * held.order.max_tokens)


async def release(store: Store, hotkey: str, lease_id: str, now_ms: int) -> None:
    """Take a lease back unfinished, which is no failed try of its unit. A repeat changes nothing.

    Raises:
        GatewayError: 404 for a lease that this node does not hold.
    """
    async with store.write() as session:
        held = await hold_own(session, hotkey, lease_id)
        if held.live:
            held.end(LeaseState.RELEASED, now_ms)
            await give_back(session, held, now_ms)
            held.save(session)
    store.announce_news()


async def give_back(session: AsyncSession, held: Held, now_ms: int) -> None:
    """Offer again what an ended lease was for, unless another miner is at it; nobody failed it."""
    if held.review is not None:
        _offer_review(held.review, now_ms)
    elif held.lease.kind == LeaseKind.GENERATE:
        if await others_at(session, held):
            return
        units.reopen(held.order, held.unit, now_ms)
    else:
        units.offer(held.unit, UnitState.SUBMITTED, now_ms)


async def others_at(session: AsyncSession, held: Held) -> list[Lease]:
    """Return the live generation leases of a unit besides the one that is held."""
    live = await generating(session, held.unit.id)
    return [lease for lease in live if lease.id != held.lease.id]


async def fail_try(session: AsyncSession, held: Held, now_ms: int) -> None:
    """Count a generation lease as a failed try; its unit is offered unless another is at it."""
    if await others_at(session, held):
        units.note_failure(held.unit, held.lease.coldkey)
    else:
        units.fail_try(held.order, held.unit, held.lease.coldkey, now_ms)


def _offer_review(review: Review, now_ms: int) -> None:
    if review.state == ReviewState.AUDITING:
        review.state = ReviewState.OPEN
        review.offered_at_ms = now_ms


async def lapsed(store: Store, now_ms: int) -> list[str]:
    """Return the ids of the live leases whose time is over, oldest first."""
    statement = (
        select(Lease.id)
        .where(col(Lease.state) == LeaseState.LIVE, col(Lease.expires_at_ms) <= now_ms)
        .order_by(col(Lease.expires_at_ms))
    )
    async with store.glance() as session:
        return list((await session.exec(statement)).all())


async def stop(store: Store, lease_id: str, now_ms: int) -> None:
    """Take a live lease back from its holder, whom nobody blames; another one changes nothing."""
    async with store.write() as session:
        held = await hold(session, lease_id)
        if held is not None and held.live:
            held.end(LeaseState.STOPPED, now_ms)
            await give_back(session, held, now_ms)
            held.save(session)
    store.announce_news()


async def reap(store: Store, lease_id: str, now_ms: int) -> bool:
    """End a lease that was not renewed in time, and offer its unit again; say if it did."""
    async with store.write() as session:
        held = await hold(session, lease_id)
        if held is None or not held.live or held.lease.expires_at_ms > now_ms:
            return False
        await _lapse(session, held, now_ms)
        held.save(session)
        return True


async def _lapse(session: AsyncSession, held: Held, now_ms: int) -> None:
    held.end(LeaseState.EXPIRED, now_ms)
    if held.review is not None:
        _offer_review(held.review, now_ms)
    elif held.lease.kind == LeaseKind.GENERATE:
        await fail_try(session, held, now_ms)
    else:
        units.audit_again(held.order, held.unit, now_ms)
    await life.settle(session, held.order, now_ms)
