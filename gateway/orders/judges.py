"""Which validators may judge a result, and which are not believed for a while."""

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import bindparam
from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from gateway.errors import GatewayError
from gateway.orders.nodes import LiveNode, can_serve, live_nodes
from gateway.orders.policy import HOUR, Policy
from gateway.store.tables import Lease, LeaseState, Node, NodeRole, Order

TAKEN_BEFORE = (LeaseState.ANSWERED, LeaseState.EXPIRED)
# An owner lives here while one of its validators was seen within this.
OWNER_MS = 24 * HOUR
_DISTRUSTED = (
    select(Node.hotkey)
    .where(
        col(Node.coldkey) == bindparam("owner"),
        col(Node.distrusted_until_ms) > bindparam("now_ms"),
    )
    .limit(1)
)


async def asked_owners(session: AsyncSession, result_lease: Lease) -> Sequence[str]:
    """Return the owners of validators that had a result, and answered or let it lapse."""
    statement = select(Lease.coldkey).where(
        col(Lease.audited_lease_id) == result_lease.id, col(Lease.state).in_(TAKEN_BEFORE)
    )
    return (await session.exec(statement)).all()


async def fresh_judges(
    session: AsyncSession, order: Order, result_lease: Lease, validators: Sequence[LiveNode]
) -> list[LiveNode]:
    """Return those of ``validators`` whose owner may judge a result and has not had it before."""
    barred = {*await asked_owners(session, result_lease), result_lease.coldkey}
    return [
        node
        for node in validators
        if can_serve(node, order)
        and node.coldkey not in barred
        and node.hotkey != result_lease.hotkey
    ]


async def judges_left(
    session: AsyncSession, order: Order, result_lease: Lease, policy: Policy, now_ms: int
) -> bool:
    """Say whether a validator lives whose owner has not had this result."""
    await session.flush()
    validators = await live_nodes(session, NodeRole.VALIDATOR, policy, now_ms)
    return bool(await fresh_judges(session, order, result_lease, validators))


async def living_owners(session: AsyncSession, policy: Policy, now_ms: int) -> set[str]:
    """Return the owners of whose believed validators one was seen within a day.

    Not of these two minutes alone: an owner that restarts still has its say.
    """
    lately = replace(policy, live_ms=OWNER_MS)
    validators = await live_nodes(session, NodeRole.VALIDATOR, lately, now_ms)
    return {validator.coldkey for validator in validators}


async def is_distrusted(session: AsyncSession, owner: str, now_ms: int) -> bool:
    """Say whether an owner's validators are believed nothing now, whichever hotkey lost it."""
    values = {"owner": owner, "now_ms": now_ms}
    return (await session.exec(_DISTRUSTED, params=values)).first() is not None


async def refuse_distrusted(session: AsyncSession, owner: str, now_ms: int) -> None:
    """Refuse a validator that is believed nothing now.

    Raises:
        GatewayError: 403 ``validator_distrusted``.
    """
    if await is_distrusted(session, owner, now_ms):
        raise GatewayError(
            403,
            "validator_distrusted",
            "This validator's verdicts contradicted what others found; they do not count for now.",
        )
