"""What goes wrong between a validator and a node of the network ends in time, and mends."""

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from chain_metadata import runtime_metadata
from chain_node import ChainNode
from chain_world import (
    ALICE,
    BOB,
    FIRST_BLOCK,
    KEYS,
    OWNER,
    VALIDATOR,
    ChainWorld,
    behind_a_node,
)

from protocol.chain.base import U16_MAX, Chain, ChainError, StaleHead
from protocol.chain.bittensor_chain import BittensorChain
from protocol.chain.bittensor_subnet import STALE_SECONDS

WEIGHTS = {ALICE: U16_MAX, BOB: 20_000}
ENDLESS = 1_000


async def _set_weights(chain: Chain) -> None:
    await chain.set_weights(KEYS["Validator"], WEIGHTS, 0)


async def _publish(chain: Chain) -> None:
    await chain.publish_endpoint(KEYS["Owner"], "https://gateway.example")


CALLS: dict[str, Callable[[Chain], Awaitable[object]]] = {
    "check": lambda chain: chain.check(),
    "head": lambda chain: chain.head(),
    "block_hash": lambda chain: chain.block_hash(FIRST_BLOCK),
    "snapshot": lambda chain: chain.snapshot(),
    "parameters": lambda chain: chain.parameters(),
    "weight_row": lambda chain: chain.weight_row(VALIDATOR),
    "endpoint": lambda chain: chain.endpoint(OWNER),
    "set_weights": _set_weights,
    "publish_endpoint": _publish,
}
SUBMIT = "author_submitAndWatchExtrinsic"


@pytest.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ChainWorld]:
    monkeypatch.setenv("BITTENSOR_RUNTIME_CACHE_DIR", str(tmp_path))
    world = ChainWorld(tmp_path)
    async with behind_a_node(world, runtime_metadata()):
        yield world


def node_of(world: ChainWorld) -> ChainNode:
    assert world.node is not None
    return world.node


async def start_anew(world: ChainWorld, cache: Path) -> None:
    """Have the next call connect, fetch the metadata, and find the rate limit passed."""
    await world.chain.aclose()
    forget(cache)
    world.advance(50)


def forget(cache: Path) -> None:
    for file in cache.glob("md*.bin"):
        file.unlink()


async def methods_of(
    world: ChainWorld, cache: Path, call: Callable[[Chain], Awaitable[object]]
) -> list[str]:
    """The RPC methods that a call uses, found by making it."""
    node = node_of(world)
    await start_anew(world, cache)
    node.called.clear()
    await call(world.chain)
    methods = sorted(set(node.called) - {"author_unwatchExtrinsic"})
    assert "chain_getFinalizedHead" in methods
    return methods


@pytest.mark.parametrize("name", CALLS)
async def test_a_socket_cut_once_in_any_request_is_mended_or_told(
    world: ChainWorld, tmp_path: Path, name: str
):
    call, node = CALLS[name], node_of(world)
    for method in await methods_of(world, tmp_path, call):
        await start_anew(world, tmp_path)
        node.cut_at = {method: 1}
        try:
            await call(world.chain)
        except ChainError as error:
            # Whether a submission was taken before the cut is not known, so it is not repeated.
            assert method == SUBMIT, error
            assert "in flight" in str(error)
            await call(world.chain)
        assert node.cut_at == {method: 0}


@pytest.mark.parametrize("name", ["head", "set_weights"])
async def test_a_node_that_always_cuts_the_socket_is_told_and_left(
    world: ChainWorld, tmp_path: Path, name: str
):
    call, node = CALLS[name], node_of(world)
    for method in await methods_of(world, tmp_path, call):
        await start_anew(world, tmp_path)
        node.cut_at = {method: ENDLESS}
        with pytest.raises(ChainError, match=r"cannot .* at ws://127.0.0.1|in flight"):
            await asyncio.wait_for(call(world.chain), 20)
        node.cut_at = {}
        # What was included before the cut counts, and what comes too soon after is refused.
        world.advance(50)
        await call(world.chain)


@pytest.mark.parametrize("name", ["head", "set_weights"])
async def test_a_socket_that_never_answers_again_is_told_and_left(
    world: ChainWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
):
    call, node = CALLS[name], node_of(world)
    for method in await methods_of(world, tmp_path, call):
        await start_anew(world, tmp_path)
        node.silent_at = {method}
        with monkeypatch.context() as short:
            short.setattr(world.chain, "_read_seconds", 0.5)
            short.setattr(world.chain, "_submit_seconds", 1.5)
            with pytest.raises(ChainError, match="did not answer within"):
                await asyncio.wait_for(call(world.chain), 20)
        node.silent_at = set()
        world.advance(50)
        await call(world.chain)


@pytest.mark.parametrize("name", ["snapshot", "set_weights"])
@pytest.mark.parametrize("garbage", [None, "0x00", 7, {}, []])
async def test_a_garbled_answer_is_told_and_left(
    world: ChainWorld, tmp_path: Path, name: str, garbage: object
):
    call, node = CALLS[name], node_of(world)
    for method in await methods_of(world, tmp_path, call):
        await start_anew(world, tmp_path)
        node.garbled_at = {method: garbage}
        # Some answers are not needed, and some are as good as none.
        with contextlib.suppress(ChainError):
            await asyncio.wait_for(call(world.chain), 20)
        node.garbled_at = {}
        await start_anew(world, tmp_path)
        await call(world.chain)


async def test_failures_leave_no_connection_open(world: ChainWorld):
    node = node_of(world)
    for _ in range(5):
        node.cut_at = {"chain_getFinalizedHead": ENDLESS}
        with pytest.raises(ChainError):
            await world.chain.head()
    node.cut_at = {}
    await world.chain.head()
    await world.chain.aclose()
    assert node.connections > 5
    await node.all_closed()


async def test_a_stale_head_is_not_acted_on(world: ChainWorld):
    now = world.clock()
    late = BittensorChain(node_of(world).url, 7, lambda: now + STALE_SECONDS + 5)
    calls = [CALLS[name] for name in ("head", "snapshot", "set_weights", "weight_row")]
    for call in calls:
        with pytest.raises(StaleHead, match=r"stuck: its newest block, 1000, is 185 s old"):
            await call(late)
    now = world.clock() - STALE_SECONDS
    assert (await late.head()).block == FIRST_BLOCK
    await late.aclose()
    assert SUBMIT not in node_of(world).called


async def test_a_node_that_is_not_there_is_told():
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as server:
        port = server.getsockname()[1]
    chain = BittensorChain(f"ws://127.0.0.1:{port}", 7, time.time)
    with pytest.raises(ChainError, match="cannot read the head"):
        await chain.head()
    await chain.aclose()


async def test_another_subnet_or_network_is_told(world: ChainWorld):
    chain = BittensorChain(node_of(world).url, 8, world.clock)
    with pytest.raises(ChainError, match="no subnet 8"):
        await chain.snapshot()
    await chain.aclose()
    with pytest.raises(ChainError, match="nowhere"):
        BittensorChain("nowhere", 8, world.clock)


@pytest.mark.parametrize("item", ["SubnetEpochIndex", "PendingEpochAt", "StakeThreshold"])
async def test_a_runtime_without_expected_storage_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, item: str
):
    monkeypatch.setenv("BITTENSOR_RUNTIME_CACHE_DIR", str(tmp_path))
    world = ChainWorld(tmp_path)
    world.local.set_rules(commit_reveal=True)
    async with behind_a_node(world, runtime_metadata().without(item)) as chain:
        with pytest.raises(ChainError, match=f"runtime 461 lacks {item} of SubtensorModule"):
            await chain.check()
        with pytest.raises(ChainError, match=item):
            await _set_weights(chain)
        assert (await chain.head()).block == FIRST_BLOCK


async def test_this_release_fits_the_runtime(world: ChainWorld):
    await world.chain.check()


async def test_a_block_is_read_once(world: ChainWorld):
    first = await world.chain.snapshot()
    calls = len(node_of(world).called)
    assert await world.chain.snapshot() == first
    assert "state_call" not in node_of(world).called[calls:]
    world.advance(1)
    assert (await world.chain.snapshot()).block == FIRST_BLOCK + 1


async def test_two_calls_at_once_share_a_connection(world: ChainWorld):
    await asyncio.gather(*(world.chain.snapshot() for _ in range(5)))
    assert node_of(world).connections == 1
