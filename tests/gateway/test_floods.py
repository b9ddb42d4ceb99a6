"""Floods of nodes: long bodies, bodies that are only declared, strangers who ask and ask."""

import asyncio
import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from attacker import (
    POSTS,
    Attacked,
    Attacker,
    assert_refused,
    attacked,
    attacker_of,
    new_registered,
    signed,
)
from live_gateway import LiveGateway

from gateway.neurons import Neurons
from gateway.orders import results
from protocol.chain.base import Snapshot
from protocol.chain.local import LocalChain
from protocol.messages import Announcement

UNKNOWN = "00000000-0000-7000-8000-000000000000"


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    with attacked(tmp_path_factory.mktemp("attacked")) as made:
        yield made


@pytest.fixture
def gateway(target: Attacked) -> LiveGateway:
    return target.gateway


@pytest.fixture
def attacker(target: Attacked) -> Iterator[Attacker]:
    with attacker_of(target) as made:
        yield made


def test_long_bodies_that_can_be_no_answer_are_not_read(
    gateway: LiveGateway, attacker: Attacker, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = attacker.lease()
    long = b'{"samples": [[' + b"7," * 2**20

    async def never(*_: Any) -> None:
        raise AssertionError("the body was read")

    with monkeypatch.context() as patch:
        patch.setattr(results, "read_posted", never)
        stranger = attacker.post(lease, long, new_registered(gateway))
        assert_refused(stranger, 404, "lease_not_found")
        assert_refused(attacker.post(lease, long), 413, "request_too_large")
    result = attacker.nodes.result(lease)
    longest = result.model_copy(update={"samples": [[300] * 16] * len(lease.work.samples)})
    spaced = json.dumps(longest.model_dump()).encode()
    # As many ids as a result may have, with white space: what is wrong with it is its root.
    assert_refused(attacker.post(lease, spaced), 400, "invalid_result")
    assert attacker.post(lease, result).status_code == 200


@pytest.mark.parametrize("each", [50, pytest.param(1_000, marks=pytest.mark.slow)])
def test_a20_a_flood_of_signed_requests_is_answered_by_the_limit(
    gateway: LiveGateway, attacker: Attacker, monkeypatch: pytest.MonkeyPatch, each: int
) -> None:
    """One node asks on four connections without a pause; meanwhile another one is served."""
    rates = gateway.state.node_rates
    monkeypatch.setattr(rates, "_burst", 40)
    monkeypatch.setattr(rates, "_per_second", 0.001)
    flooder = new_registered(gateway)

    def flood() -> list[int]:
        with httpx.Client(base_url=gateway.origin, timeout=60) as client:
            # A signature stands for seconds, so each is made when it is sent.
            return [
                client.post(
                    POSTS, content=b"{}", headers=signed(gateway, flooder, POSTS, b"{}")
                ).status_code
                for _ in range(each)
            ]

    with ThreadPoolExecutor(4) as pool:
        floods = [pool.submit(flood) for _ in range(4)]
        for _ in range(20):
            announced = attacker.send(attacker.miner, "/nodes/v1/announce", miner(attacker))
            assert announced.status_code == 204
    statuses = [status for one in floods for status in one.result()]
    assert (statuses.count(400), statuses.count(429)) == (40, 4 * each - 40)


def miner(attacker: Attacker) -> Announcement:
    return attacker.nodes.announcement("miner")


def test_declared_lengths_take_no_room_from_others(
    gateway: LiveGateway, attacker: Attacker
) -> None:
    """Bodies of 64 MiB each are announced in an honest node's name, and do not come."""
    host, port = gateway.origin.removeprefix("http://").split(":")
    head = (
        f"POST {POSTS}/{UNKNOWN}/result HTTP/1.1\r\nHost: x\r\n"
        f"X-Bittensor-Hotkey: {attacker.miner.ss58_address}\r\n"
        f"Content-Length: {64 * 2**20}\r\n\r\n "
    )
    slow = [socket.create_connection((host, int(port))) for _ in range(12)]
    try:
        for connection in slow:
            connection.sendall(head.encode())
        time.sleep(0.5)
        assert attacker.lease().work.samples
    finally:
        for connection in slow:
            connection.close()


async def test_strangers_keep_no_known_node_waiting(tmp_path: Path) -> None:
    """The chain takes its time over a reading that an unknown hotkey caused."""
    now, turn, reading = [100.0], asyncio.Event(), asyncio.Event()
    chain = LocalChain(tmp_path / "chain.sqlite", lambda: now[0])
    chain.register("known", "owner")

    class SlowChain:
        """The local chain, of which a test decides when it answers."""

        async def snapshot(self) -> Snapshot:
            reading.set()
            await turn.wait()
            return await chain.snapshot()

    turn.set()
    neurons = Neurons(SlowChain(), lambda: now[0])  # pyright: ignore[reportArgumentType]
    assert await neurons.find("known") is not None
    turn.clear()
    reading.clear()
    now[0] += 2
    stranger = asyncio.create_task(neurons.find("stranger"))
    await reading.wait()
    known = asyncio.create_task(neurons.find("known"))
    done, _ = await asyncio.wait({known}, timeout=10)
    turn.set()
    assert done and known.result() is not None
    assert await stranger is None
