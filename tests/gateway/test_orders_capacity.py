"""What the network can serve: the list that nodes announce, and the speed of those that hold it."""

import json
from typing import Any

import pytest
from sqlmodel import col

from gateway.errors import GatewayError
from gateway.orders.capacity import TELLING_TOKENS, Capacity
from gateway.orders.policy import HOUR
from gateway.store.tables import Lease
from gateway.store.tables import Node as NodeRow

# What the nodes of ``world`` announce.
MODEL, REVISION, ARCHITECTURE = "org/model", "ab" * 20, "Qwen3ForCausalLM"


def capacity(world, *configured: str) -> Capacity:
    return Capacity(world.store, world.policy, configured, 640 * 10**9)


async def change(world, table: Any, key: str, **values: object) -> None:
    """Set a row's columns, as if it had come about otherwise."""
    async with world.store.write() as session:
        row = await session.get(table, key)
        row.sqlmodel_update(values)
        session.add(row)


async def serving(world, role: Any, *architectures: str) -> Any:
    node = await world.node(role)
    await change(world, NodeRow, node.hotkey, architectures_json=json.dumps(architectures))
    return node


async def test_a_configured_list_needs_no_node(world) -> None:
    await serving(world, "miner", "A")
    assert await capacity(world, "B", "C").supported(world.now) == ("B", "C")


async def test_without_any_announcement_there_is_no_list(world) -> None:
    await serving(world, "miner")
    with pytest.raises(GatewayError) as error:
        await capacity(world).supported(world.now)
    assert (error.value.status, error.value.code) == (503, "architecture_list_unavailable")
    assert error.value.retry_after is not None
    assert error.value.retry_after <= 60


async def test_what_miners_and_validators_both_serve_is_supported(world) -> None:
    await serving(world, "miner", "B", "A")
    assert await capacity(world).supported(world.now) == ("A", "B")
    await serving(world, "miner", "C")
    assert await capacity(world).supported(world.now) == ("A", "B", "C")
    await serving(world, "validator", "D", "C", "A")
    assert await capacity(world).supported(world.now) == ("A", "C")


async def test_a_node_that_went_away_counts_until_another_is_there(world) -> None:
    await serving(world, "miner", "A")
    world.now += 2 * world.policy.live_ms
    assert await capacity(world).supported(world.now) == ("A",)
    await world.node("miner")
    assert await capacity(world).supported(world.now) == (ARCHITECTURE,)


async def generated(world, miner, tokens: int, seconds: int) -> None:
    """Let a miner answer a lease of so many tokens after so long."""
    await world.place()
    lease = await world.lease(miner)
    assert lease is not None
    world.now += 1
    await world.post(miner, lease)
    (row,) = await world.rows(Lease, col(Lease.id) == lease.lease_id)
    begun = row.ended_at_ms - 1_000 * seconds
    await change(world, Lease, row.id, tokens=tokens, granted_at_ms=begun)


async def test_the_speed_is_what_the_holders_gave_of_late(world) -> None:
    first, second = await world.node("miner"), await world.node("miner")
    assert await capacity(world).speed(MODEL, REVISION, world.now) is None
    await generated(world, first, TELLING_TOKENS - 1, 1)
    assert await capacity(world).speed(MODEL, REVISION, world.now) is None
    await generated(world, first, TELLING_TOKENS, 10)
    await generated(world, first, 3 * TELLING_TOKENS, 10)
    assert await capacity(world).speed(MODEL, REVISION, world.now) == TELLING_TOKENS / 5
    await generated(world, second, TELLING_TOKENS, 1)
    assert await capacity(world).speed(MODEL, REVISION, world.now) == 1.2 * TELLING_TOKENS
    assert await capacity(world).speed(MODEL, "f" * 40, world.now) is None
    await world.announce(first, loaded=False)
    assert await capacity(world).speed(MODEL, REVISION, world.now) == TELLING_TOKENS
    world.now += 24 * HOUR
    await world.announce(second)
    assert await capacity(world).speed(MODEL, REVISION, world.now) is None
