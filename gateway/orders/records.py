"""Miners' records with each model commit: what was judged goes in, and who is suspended comes out.

The caller of ``remember`` holds the order's lock.
"""

import json

from sqlalchemy import bindparam
from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from gateway.errors import GatewayError
from gateway.orders.rows import lock_node
from gateway.store.tables import Lease, Node, Order, Record
from protocol.messages import LoadedModel
from scoring.reputation import VERIFIED, extended, may_lease

_OF_OTHERS = (
    select(Record.miner)
    .where(
        col(Record.model) == bindparam("model"),
        col(Record.revision) == bindparam("revision"),
        col(Record.owner) != bindparam("owner"),
        col(Record.verified_at_ms).is_not(None),
    )
    .limit(1)
)


async def remember(
    session: AsyncSession,
    order: Order,
    result_lease: Lease,
    letters: str,
    now_ms: int,
    *,
    locked: bool = False,
) -> None:
    """Extend the record of a result's miner with the order's model commit.

    Args:
        locked: the caller has locked the miner's row, which is the lock of its records.
    """
    if not letters:
        return
    miner = result_lease.hotkey
    node = await (session.get(Node, miner) if locked else lock_node(session, miner))
    if node is None:
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
    values = {"model": loaded.model, "revision": loaded.revision, "owner": node.coldkey}
    return (await session.exec(_OF_OTHERS, params=values)).first() is not None
