"""What tests of second opinions do with a ``World``, and what they look at."""

import json

from sqlmodel import col

from gateway.orders import reviewing
from gateway.store.tables import Node, Record, Review

BLOCK_MS = 12_000


async def attend(world, chain, blocks: int = 0) -> None:
    """Let blocks pass, all nodes stay alive, and do the background work before and after."""
    await reviewing.attend(world.store, chain, world.policy, world.now)
    world.now += blocks * BLOCK_MS
    await reviewing.attend(world.store, chain, world.policy, world.now)


async def nodes(world, miners: int, validators: int):
    return (
        [await world.node("miner") for _ in range(miners)],
        [await world.node("validator") for _ in range(validators)],
    )


async def cheat(world, miner):
    """Post a result of legal form that no model gave."""
    lease = await world.lease(miner)
    if lease is not None:
        samples = [[94, 95]] * len(lease.work.samples)
        await world.post(miner, lease, world.result(miner, lease, samples=samples))


async def audit_honestly(world, validator):
    lease = await world.lease_audit(validator)
    if lease is not None:
        await world.judge(validator, lease, world.verdicts(validator, lease, world.truth(lease)))
    return lease


async def ending(world) -> list[str | None]:
    rows = await world.rows(Review)
    return [row.ending for row in sorted(rows, key=lambda row: row.id)]


async def record(world, miner) -> str:
    """Return the letters of a miner's record with the world's model, oldest first."""
    rows = await world.rows(Record, col(Record.miner) == miner.hotkey)
    return "".join(found for row in rows for _, found in json.loads(row.entries_json))


async def is_distrusted(world, node) -> bool:
    (row,) = await world.rows(Node, col(Node.hotkey) == node.hotkey)
    return (row.distrusted_until_ms or 0) > world.now
