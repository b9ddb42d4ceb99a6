"""Which validators may judge a result, and which are not believed for a while."""

from collections.abc import Sequence

from sqlmodel import col, select, update
from sqlmodel.ext.asyncio.session import AsyncSession

from gateway.errors import GatewayError
from gateway.orders.nodes import can_serve
from gateway.orders.policy import Policy
from gateway.store.tables import Lease, LeaseState, Node, Order

TAKEN_BEFORE = (LeaseState.ANSWERED, LeaseState.EXPIRED)


async def fresh_judges(
    session: AsyncSession, order: Order, result_lease: Lease, validators: Sequence[Node]
) -> list[Node]:
    """Return those of ``validators`` whose owner may judge a result and has not had it before."""
    statement = select(Lease.coldkey).where(
        col(Lease.audited_lease_id) == result_lease.id, col(Lease.state).in_(TAKEN_BEFORE)
    )
    barred = {*(await session.exec(statement)).all(), result_lease.coldkey}
    return [
        node
        for node in validators
        if can_serve(node, order)
        and node.coldkey not in barred
        and node.hotkey != result_lease.hotkey
    ]


async def distrust(session: AsyncSession, owner: str, policy: Policy, now_ms: int) -> None:
    """Believe an owner's validators nothing for a while."""
    statement = (
        update(Node)
        # Whatever role it announces just now: it may have been a validator a moment ago.
        .where(col(Node.coldkey) == owner)
        .values(distrusted_until_ms=now_ms + policy.distrust_ms)
        .execution_options(synchronize_session=False)
    )
    await session.exec(statement)


async def is_distrusted(session: AsyncSession, owner: str, now_ms: int) -> bool:
    """Say whether an owner's validators are believed nothing now, whichever hotkey lost it."""
    statement = select(Node.hotkey).where(
        col(Node.coldkey) == owner, col(Node.distrusted_until_ms) > now_ms
    )
    return (await session.exec(statement.limit(1))).first() is not None


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
