"""What a decision on samples means for nodes: a miner's record, and owners that are not believed.

It is carried out at the end of a transaction: one order of locking (order, units and reviews, then
all nodes at once by their hotkeys, then trails and records) keeps two of them from waiting for each
other in a circle.
"""

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import bindparam
from sqlmodel import col, or_, select
from sqlmodel.ext.asyncio.session import AsyncSession

from gateway.orders.convicting import forget, miners_with_trails
from gateway.orders.leases import Held
from gateway.orders.policy import Policy
from gateway.orders.records import remember
from gateway.store.tables import Lease, Node

_NODES = (
    select(Node)
    .where(
        or_(
            col(Node.hotkey).in_(bindparam("hotkeys", expanding=True)),
            col(Node.coldkey).in_(bindparam("owners", expanding=True)),
        )
    )
    .order_by(col(Node.hotkey))
    .with_for_update(key_share=True)
    .execution_options(populate_existing=True)
)


@dataclass(frozen=True)
class Aftermath:
    """Letters for the miner's record, and the owners of validators whom most others contradict."""

    letters: str = ""
    wrong: frozenset[str] = frozenset()


async def carry_out(
    session: AsyncSession,
    held: Held,
    result_lease: Lease,
    found: Aftermath,
    policy: Policy,
    now_ms: int,
) -> None:
    """Write what follows from a decision to nodes, trails and records.

    Args:
        held: what was decided on, and the lease that decided it, all of it written by now.
        result_lease: of the result.
    """
    held.save(session)
    await session.flush()
    harmed = await miners_with_trails(session, found.wrong)
    hotkeys = {result_lease.hotkey, held.lease.hotkey, *harmed}
    for node in await _locked(session, hotkeys, found.wrong):
        if node.coldkey in found.wrong:
            # Whatever role it announces just now: it may have been a validator a moment ago.
            node.distrusted_until_ms = now_ms + policy.distrust_ms
            session.add(node)
    await forget(session, found.wrong, harmed, policy, now_ms)
    await remember(session, held.order, result_lease, found.letters, now_ms, locked=True)


async def _locked(
    session: AsyncSession, hotkeys: Collection[str], owners: Collection[str]
) -> list[Node]:
    """Return nodes by their hotkeys or their owners, locked one after another by hotkey."""
    whose = {"hotkeys": list(hotkeys), "owners": list(owners)}
    return list((await session.exec(_NODES, params=whose)).all())
