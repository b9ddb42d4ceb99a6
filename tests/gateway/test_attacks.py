"""What a hostile or unlucky node sends to a live gateway, and that nothing comes of it.

Every request is a real one, signed where the attack can sign. Faked are the tokens and the verdicts
alone: no model runs.
"""

import asyncio
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from bittensor import http_auth
from bittensor_core import Keypair
from fake_nodes import STACK, FakeNodes, all_verified
from live_gateway import LiveGateway, live_gateway
from small_model import MODEL, small_model_hub
from sqlmodel import select
from tokenizers import Tokenizer

from gateway.api import signed as signed_requests
from gateway.neurons import Neurons
from gateway.orders import life
from gateway.store.tables import Lease as LeaseRow
from gateway.store.tables import Node, Order
from protocol.chain.base import Snapshot
from protocol.chain.local import LocalChain
from protocol.documents import statement_of_result
from protocol.keys import sign_statement
from protocol.messages import AuditLease, Lease, LoadedModel, Message, Result

POSTS = "/nodes/v1/leases"
UNKNOWN = "00000000-0000-7000-8000-000000000000"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, int]]:
    """The commit of the small model and its end id."""
    folder = tmp_path_factory.mktemp("hub")
    with small_model_hub(folder) as commit:
        tokenizer = Tokenizer.from_file(str(folder / "files" / "tokenizer.json"))
        end = tokenizer.token_to_id("<|im_end|>")
        assert end is not None
        yield commit, end


@pytest.fixture(scope="module")
def gateway(
    hub: tuple[str, int], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LiveGateway]:
    folder = tmp_path_factory.mktemp("gateway")
    with live_gateway(folder, unit_samples=2, open_orders=1_000) as running:
        yield running


class Attacker:
    """A node that announces itself, holds leases and sends what it likes."""

    def __init__(self, gateway: LiveGateway, loaded: LoadedModel, end: int) -> None:
        self.gateway = gateway
        keys = [new_keypair() for _ in range(2)]
        self.nodes = FakeNodes(*keys, loaded, [5, end], all_verified)
        self.miner, self.validator = keys
        gateway.register(self.miner.ss58_address)
        gateway.register(self.validator.ss58_address, validator_permit=True)
        for key, role in ((self.miner, "miner"), (self.validator, "validator")):
            announcement = self.nodes.announcement(role)
            assert self.send(key, "/nodes/v1/announce", announcement).status_code == 204

    def send(self, key: Keypair, path: str, message: Message | bytes = b"") -> httpx.Response:
        """Send a message, rightly signed."""
        body = message if isinstance(message, bytes) else message.model_dump_json().encode()
        headers = signed(self.gateway, key, path, body)
        return httpx.post(self.gateway.origin + path, content=body, headers=headers, timeout=60)

    def lease(self) -> Lease:
        body = {"role": "miner", "loaded": self.nodes.loaded.model_dump(), "max_samples": 2}
        answer = self.send(self.miner, POSTS, json.dumps(body).encode())
        return Lease.model_validate_json(answer.content)

    def audit(self) -> AuditLease:
        body = {"role": "validator", "loaded": self.nodes.loaded.model_dump()}
        answer = self.send(self.validator, POSTS, json.dumps(body).encode())
        return AuditLease.model_validate_json(answer.content)

    def post(
        self, lease: Lease, result: Message | bytes, key: Keypair | None = None
    ) -> httpx.Response:
        return self.send(key or self.miner, f"{POSTS}/{lease.lease_id}/result", result)

    def resigned(self, result: Result, **changes: Any) -> Result:
        """Return a changed result under the miner's own signature."""
        changed = result.model_copy(update=changes)
        signature = sign_statement(self.miner, statement_of_result(changed))
        return changed.model_copy(update={"signature": signature})


@pytest.fixture
def attacker(gateway: LiveGateway, hub: tuple[str, int]) -> Iterator[Attacker]:
    """An attacker at a gateway with one order of two lines and four samples."""
    batch = order(gateway, 2)
    yield Attacker(gateway, LoadedModel(model=MODEL, revision=hub[0]), hub[1])
    end(gateway, batch)


def order(gateway: LiveGateway, lines: int) -> str:
    """Place an order of so many lines with two samples each; return its batch id."""
    requests = [
        {
            "custom_id": f"q{at}",
            "body": {
                "model": MODEL,
                "messages": [{"role": "user", "content": f"hello {at}"}],
                "max_tokens": 16,
                "n": 2,
            },
        }
        for at in range(lines)
    ]
    batch = gateway.openrelay().batches.create(
        input_file_id=openai.omit,  # pyright: ignore[reportArgumentType]
        endpoint="/v1/chat/completions",
        completion_window="24h",
        extra_body={"requests": requests},
    )
    return batch.id


def end(gateway: LiveGateway, batch: str) -> None:
    """Cancel an order and end what is in flight of it, which would be the next test's."""
    gateway.openrelay().batches.cancel(batch)
    long_after = gateway.state.now_ms() + 10**9

    async def stop() -> None:
        store, policy = gateway.state.store, gateway.state.settings.policy
        async with store.read() as session:
            orders = (await session.exec(select(Order.id))).all()
        for order_id in orders:
            await life.stop_cancelled(store, order_id, policy, long_after)

    gateway.run(stop())


def new_keypair() -> Keypair:
    return Keypair.create_from_mnemonic(Keypair.generate_mnemonic())


def signed(
    gateway: LiveGateway, key: Keypair, path: str, body: bytes, **claims: Any
) -> dict[str, str]:
    return http_auth.sign(
        key,
        method="POST",
        path=path,
        body=body,
        receiver_ss58=gateway.state.keypair.ss58_address,
        **claims,
    )


def assert_refused(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert error["code"] == code
    return error


def counters(gateway: LiveGateway) -> list[tuple[int, ...]]:
    """Every count that a post could move: of orders, leases and miners."""

    async def read() -> list[tuple[Any, ...]]:
        async with gateway.state.store.read() as session:
            orders = (await session.exec(select(Order).order_by(Order.id))).all()
            leases = (await session.exec(select(LeaseRow).order_by(LeaseRow.id))).all()
            nodes = (await session.exec(select(Node).order_by(Node.hotkey))).all()
        return [
            *(
                (o.samples_verified, o.samples_void, o.samples_missing, o.tokens_verified)
                for o in orders
            ),
            *((lease.state, lease.tokens, lease.answer_sha256) for lease in leases),
            *((node.outcomes, node.tokens_per_second) for node in nodes),
        ]

    return gateway.run(read())


# A14, A15: who sent a request


def test_two_senders_in_one_request(gateway: LiveGateway, attacker: Attacker) -> None:
    """One hotkey to be looked up, another whose signature verifies."""
    stranger, victim = new_keypair(), attacker.validator
    body = attacker.nodes.announcement("validator").model_dump_json().encode()
    own = signed(gateway, stranger, "/nodes/v1/announce", body)
    url = f"{gateway.origin}/nodes/v1/announce"
    named = ("X-Bittensor-Hotkey", victim.ss58_address)
    for headers in ([named, *own.items()], [*own.items(), named]):
        error = assert_refused(
            httpx.post(url, content=body, headers=headers), 401, "malformed_auth"
        )
        assert "x-bittensor-hotkey" in error["message"]


def test_a_captured_post_is_worth_nothing_elsewhere(
    gateway: LiveGateway, attacker: Attacker
) -> None:
    lease = attacker.lease()
    path = f"{POSTS}/{lease.lease_id}/release"
    headers = signed(gateway, attacker.miner, path, b"", nonce_ns=time.time_ns())
    other = f"{POSTS}/{attacker.lease().lease_id}/release"
    assert_refused(httpx.post(gateway.origin + other, headers=headers), 401, "bad_signature")
    assert httpx.post(gateway.origin + path, headers=headers).status_code == 204
    assert_refused(httpx.post(gateway.origin + path, headers=headers), 401, "replayed_request")


def test_a_deregistered_node_is_out_in_the_middle_of_its_lease(
    gateway: LiveGateway, attacker: Attacker
) -> None:
    lease = attacker.lease()
    before = counters(gateway)
    gateway.chain.deregister(attacker.miner.ss58_address)
    gateway.state.neurons.forget()
    result = attacker.nodes.result(lease)
    assert_refused(attacker.post(lease, result), 403, "not_registered")
    assert counters(gateway) == before


# A1, A4, A13: results


@pytest.mark.parametrize(
    ("ids", "place"),
    [
        ([5, -1], "samples.1.1"),
        ([5, 2**32], "samples.1.1"),
        ([5, 2**64 + 5], "samples.1.1"),
        ([5.0], "samples.1.0"),
        ([True], "samples.1.0"),
        (["5"], "samples.1.0"),
        ([None], "samples.1.0"),
        ("ab", "samples.1"),
    ],
)
def test_ids_that_are_none(gateway: LiveGateway, attacker: Attacker, ids: Any, place: str) -> None:
    lease = attacker.lease()
    result = attacker.nodes.result(lease)
    document = {**result.model_dump(), "samples": [result.samples[0], ids]}
    before = counters(gateway)
    error = assert_refused(
        attacker.post(lease, json.dumps(document).encode()), 400, "invalid_message"
    )
    assert error["param"] == place
    assert counters(gateway) == before
    assert attacker.post(lease, result).status_code == 200


@pytest.mark.parametrize("extra", ["text", "tokens", "finish_reason", "usage", "logprobs"])
def test_no_second_field_for_one_truth(attacker: Attacker, extra: str) -> None:
    lease = attacker.lease()
    document = attacker.nodes.result(lease).model_dump() | {extra: [[7]]}
    error = assert_refused(
        attacker.post(lease, json.dumps(document).encode()), 400, "invalid_message"
    )
    assert error["param"] == extra


def test_a_result_of_another_unit_attempt_or_miner(
    gateway: LiveGateway, attacker: Attacker
) -> None:
    first, second = attacker.lease(), attacker.lease()
    result = attacker.nodes.result(first)
    before = counters(gateway)
    others = (
        (second, result),
        # The right root under another unit, and under another attempt.
        (second, attacker.resigned(result, unit_id=second.work.unit_id)),
        (first, attacker.resigned(result, attempt=first.attempt + 1)),
        # A signature that covers another stack than the one beside it.
        (first, result.model_copy(update={"stack": STACK.model_copy(update={"device": "x"})})),
    )
    for lease, posted in others:
        assert_refused(attacker.post(lease, posted), 400, "invalid_result")
    for key in (attacker.validator, new_registered(gateway)):
        assert_refused(attacker.post(first, result, key), 404, "lease_not_found")
        for verb in ("release", "heartbeat"):
            body = b'{"tokens": 1}' if verb == "heartbeat" else b""
            answer = attacker.send(key, f"{POSTS}/{first.lease_id}/{verb}", body)
            assert_refused(answer, 404, "lease_not_found")
    assert counters(gateway) == before


def new_registered(gateway: LiveGateway) -> Keypair:
    key = new_keypair()
    gateway.register(key.ss58_address)
    return key


def test_a_second_result_and_a_late_one_change_nothing(
    gateway: LiveGateway, attacker: Attacker
) -> None:
    lease, late = attacker.lease(), attacker.lease()
    result = attacker.nodes.result(lease)
    first = attacker.post(lease, result)
    assert first.status_code == 200
    released = attacker.send(attacker.miner, f"{POSTS}/{late.lease_id}/release")
    assert released.status_code == 204
    before = counters(gateway)
    assert attacker.post(lease, result).json() == first.json()
    # A signature is made with fresh randomness: the same words, and yet another document.
    assert_refused(attacker.post(lease, attacker.resigned(result)), 409, "lease_over")
    overdue = attacker.nodes.result(late)
    assert_refused(attacker.post(late, overdue), 409, "lease_over")
    beat = attacker.send(attacker.miner, f"{POSTS}/{late.lease_id}/heartbeat", b'{"tokens": 9}')
    assert beat.json()["stop"] is True
    assert counters(gateway) == before


# A12: hoarding


def test_a_node_holds_a_bounded_number_of_leases(
    gateway: LiveGateway, hub: tuple[str, int]
) -> None:
    limit = gateway.state.settings.policy.leases_at_once
    batch = order(gateway, limit + 4)
    loaded = LoadedModel(model=MODEL, revision=hub[0])
    hoarder, other = (Attacker(gateway, loaded, hub[1]) for _ in range(2))
    held = [hoarder.lease() for _ in range(limit)]
    body = json.dumps({"role": "miner", "loaded": loaded.model_dump()}).encode()
    assert hoarder.send(hoarder.miner, POSTS, body).status_code == 204
    assert other.lease().work.samples
    path = f"{POSTS}/{held[0].lease_id}/release"
    assert hoarder.send(hoarder.miner, path).status_code == 204
    assert hoarder.lease().work.samples
    end(gateway, batch)


# Verdicts


def test_verdicts_that_contradict_themselves_or_break_the_database(
    gateway: LiveGateway, attacker: Attacker
) -> None:
    lease = attacker.lease()
    assert attacker.post(lease, attacker.nodes.result(lease)).status_code == 200
    audit = attacker.audit()
    path = f"{POSTS}/{audit.lease_id}/verdicts"
    good = all_verified(audit)
    before = counters(gateway)
    for change, words in (
        ({"mismatches": 3}, "3 mismatches in 2 tokens"),
        ({"outcome": "void", "reason": "x", "position": 3}, "position past its 2 tokens"),
        ({"reason": "lies"}, "reason and position must be null"),
        ({"position": 0}, "reason and position must be null"),
        ({"mismatches": 2, "marks": [(1, 0, 1), (0, 0, 1)]}, "positions do not rise below its 2"),
        ({"mismatches": 2, "marks": [(0, 0, 1), (0, 0, 1)]}, "positions do not rise below its 2"),
        ({"mismatches": 1, "marks": [(2, 0, 1)]}, "positions do not rise below its 2"),
        ({"mismatches": 1, "marks": [(0, 0, 1), (1, 0, 1)]}, "2 marks for 1 mismatches"),
    ):
        bad = [good[0].model_copy(update=change), *good[1:]]
        attacker.nodes.judge = lambda _, bad=bad: bad
        answer = attacker.send(attacker.validator, path, attacker.nodes.verdicts(audit))
        assert words in assert_refused(answer, 400, "invalid_verdicts")["message"]
    attacker.nodes.judge = all_verified
    verdicts = attacker.nodes.verdicts(audit)
    nul = json.dumps(verdicts.model_dump() | {"rule": "a\0b"}).encode()
    error = assert_refused(attacker.send(attacker.validator, path, nul), 400, "invalid_message")
    assert error["param"] == "rule"
    assert counters(gateway) == before
    # The miner has no permit, whoever's lease it is.
    answer = attacker.send(attacker.miner, path, verdicts)
    assert_refused(answer, 403, "no_validator_permit")
    assert attacker.send(attacker.validator, path, verdicts).status_code == 200


# A20: floods


def test_long_bodies_that_can_be_no_answer_are_not_read(
    gateway: LiveGateway, attacker: Attacker, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = attacker.lease()
    long = b'{"samples": [[' + b"7," * 2**20

    async def never(*_: Any) -> None:
        raise AssertionError("the body was read")

    with monkeypatch.context() as patch:
        patch.setattr(signed_requests.Call, "read", never)
        stranger = attacker.post(lease, long, new_registered(gateway))
        assert_refused(stranger, 404, "lease_not_found")
        assert_refused(attacker.post(lease, long), 413, "request_too_large")
    result = attacker.nodes.result(lease)
    longest = result.model_copy(update={"samples": [[300] * 16] * len(lease.work.samples)})
    spaced = json.dumps(longest.model_dump()).encode()
    # As many ids as a result may have, with white space: what is wrong with it is its root.
    assert_refused(attacker.post(lease, spaced), 400, "invalid_result")
    assert attacker.post(lease, result).status_code == 200


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
