"""Miners' records with each model commit: what was judged goes in, and who is suspended comes out.

The caller of ``remember`` holds the order's lock.
"""

import json

from sqlmodel import col, func, select
from sqlmodel.ext.asyncio.session import AsyncSession

from gateway.errors import GatewayError
from gateway.orders.rows import lock_node
from gateway.store.tables import Lease, Node, Order, Record
from protocol.messages import LoadedModel
from scoring.reputation import VERIFIED, extended, may_lease


async def remember(
    session: AsyncSession, order: Order, result_lease: Lease, letters: str, now_ms: int
) -> None:
    """Extend the record of a result's miner with the order's model commit."""
    # The miner's row is the lock of its records.
    if not letters or await lock_node(session, result_lease.hotkey) is None:
        return
    key = (result_lease.hotkey, order.model, order.revision)
    record = await session.get(Record, key)
    if record is None:
        record = Record(
            miner=result_lease.hotkey,
            model=order.model,
            revision=order.revision,
            owner=result_lease.coldkey,
            entries_json="[]",
        )
    entries = extended(json.loads(record.entries_json), letters, now_ms)
    record.entries_json = json.dumps(entries)
    record.owner = result_lease.coldkey
    if VERIFIED in letters:
        record.verified_at_ms = now_ms
        record.verified += letters.count(VERIFIED)
    session.add(record)


async def verified_of(session: AsyncSession, owner: str) -> int:
    """Return how many samples of an owner's miners were verified so far."""
    statement = select(func.coalesce(func.sum(Record.verified), 0)).where(
        col(Record.owner) == owner
    )
    return int((await session.exec(statement)).one())


async def refuse_suspended(
    session: AsyncSession, node: Node, loaded: LoadedModel, now_ms: int
) -> None:
    """Refuse a miner too many of whose latest samples of a model commit were void.

    Raises:
        GatewayError: 403 ``miner_suspended``.
    """
    record = await session.get(Record, (node.hotkey, loaded.model, loaded.revision))
    if record is None:
        return
    corroborated = await _is_corroborated(session, node, loaded)
    if not may_lease(json.loads(record.entries_json), now_ms, corroborated=corroborated):
        raise GatewayError(
            403,
            "miner_suspended",
            "Too many of this miner's latest samples of this model commit were void; it is given "
            "no work of it until they are a day old.",
        )


async def _is_corroborated(session: AsyncSession, node: Node, loaded: LoadedModel) -> bool:
    """Say whether a miner of another owner was verified on a model commit."""
    statement = select(Record.miner).where(
        col(Record.model) == loaded.model,
        col(Record.revision) == loaded.revision,
        col(Record.owner) != node.coldkey,
        col(Record.verified_at_ms).is_not(None),
    )
    return (await session.exec(statement.limit(1))).first() is not None
