"""What a hostile or unlucky node sends to a live gateway, and that nothing comes of it."""

import json
import time
from collections.abc import Iterator
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
    counters,
    end,
    new_keypair,
    new_registered,
    order,
    signed,
)
from fake_nodes import STACK, all_verified
from live_gateway import LiveGateway


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


# A14, A15: who sent a request


def test_a14_two_senders_in_one_request(gateway: LiveGateway, attacker: Attacker) -> None:
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


def test_a14_a_captured_post_is_worth_nothing_elsewhere(
    gateway: LiveGateway, attacker: Attacker
) -> None:
    lease = attacker.lease()
    path = f"{POSTS}/{lease.lease_id}/release"
    headers = signed(gateway, attacker.miner, path, b"", nonce_ns=time.time_ns())
    other = f"{POSTS}/{attacker.lease().lease_id}/release"
    assert_refused(httpx.post(gateway.origin + other, headers=headers), 401, "bad_signature")
    assert httpx.post(gateway.origin + path, headers=headers).status_code == 204
    assert_refused(httpx.post(gateway.origin + path, headers=headers), 401, "replayed_request")


def test_a16_a_deregistered_node_is_out_in_the_middle_of_its_lease(
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
def test_a4_ids_that_are_none(
    gateway: LiveGateway, attacker: Attacker, ids: Any, place: str
) -> None:
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


@pytest.mark.parametrize("extra", ["tokens", "finish_reason", "usage", "logprobs", "proof"])
def test_a1_no_second_field_for_one_truth(attacker: Attacker, extra: str) -> None:
    lease = attacker.lease()
    document = attacker.nodes.result(lease).model_dump() | {extra: [[7]]}
    error = assert_refused(
        attacker.post(lease, json.dumps(document).encode()), 400, "invalid_message"
    )
    assert error["param"] == extra


@pytest.mark.parametrize("truth_is_last", [True, False])
def test_a1_a_member_given_twice_is_one_truth(
    gateway: LiveGateway, attacker: Attacker, truth_is_last: bool
) -> None:
    """What was signed is what is kept, or nothing is taken, whichever a reader would have read."""
    lease = attacker.lease()
    result = attacker.nodes.result(lease)
    members = result.model_dump_json()[1:-1]
    other = '"samples": [[1], [2]]'
    pieces = (other, members) if truth_is_last else (members, other)
    answer = attacker.post(lease, ("{" + ",".join(pieces) + "}").encode())
    if not truth_is_last:
        assert_refused(answer, 400, "invalid_result")
        return
    assert answer.status_code == 200
    audit = attacker.audit()
    assert audit.result == result


@pytest.mark.parametrize("member", ["text", "texts", "messages", "choices", "output"])
def test_a3_no_text_is_taken(attacker: Attacker, member: str) -> None:
    lease = attacker.lease()
    document = attacker.nodes.result(lease).model_dump() | {member: ["Paris"]}
    error = assert_refused(
        attacker.post(lease, json.dumps(document).encode()), 400, "invalid_message"
    )
    assert error["param"] == member
    samples = attacker.nodes.result(lease).model_dump() | {"samples": ["Paris", "Paris"]}
    assert_refused(attacker.post(lease, json.dumps(samples).encode()), 400, "invalid_message")


def test_a13_a_result_of_another_unit_attempt_or_miner(
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
        (first, result.model_copy(update={"stack": STACK.model_copy(update={"device": "cuda"})})),
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


def test_a13_a_second_result_and_a_late_one_change_nothing(
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


def test_a12_a_node_holds_a_bounded_number_of_leases(
    gateway: LiveGateway, target: Attacked
) -> None:
    limit = gateway.state.settings.policy.leases_at_once
    batch = order(gateway, limit + 4)
    hoarder, other = (Attacker(gateway, target.loaded, target.end) for _ in range(2))
    hoarder.prove()
    held = [hoarder.lease() for _ in range(limit)]
    body = json.dumps({"role": "miner", "loaded": target.loaded.model_dump()}).encode()
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
