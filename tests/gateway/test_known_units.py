"""Known-answer units: no validator tells them from others, and they find who does not look."""

import json
import random
from collections.abc import Callable

import pytest
from attacker import POSTS, Attacker, end, order
from fake_nodes import STACK
from live_gateway import live_gateway
from second_opinions import is_distrusted
from small_model import MODEL, small_model_hub
from sqlmodel import col
from world import new_keypair

from gateway.errors import GatewayError
from gateway.orders import background, known_units
from gateway.orders.known_units import LEFT_MS, Signers
from gateway.orders.policy import MAX_AUDITS, Policy
from gateway.store.tables import KnownAnswer, Lease, Unit, Verdict
from protocol.documents import audited_statement
from protocol.keys import load_hotkey, verify_statement
from protocol.messages import AuditLease, LoadedModel
from protocol.results import signed_result
from validator.claims import unproven

SAMPLES = 32
ALL = Policy(unit_samples=SAMPLES, known_answers=1.0)

Judge = Callable[[AuditLease, random.Random], list[str]]


@pytest.fixture
def world(sqlite_world):
    sqlite_world.policy = ALL
    return sqlite_world


async def place(world, units: int):
    prompts = [[1 + place % 90, place // 90] for place in range(units * SAMPLES)]
    return await world.place(prompts, max_tokens=31)


async def ready(world, rng: random.Random, probes) -> None:
    signers = Signers(world.keypair, probes)
    await known_units.keep_ready(world.store, signers, world.policy, rng.randbytes(32), world.now)


async def known(world) -> list[Unit]:
    return await world.rows(Unit, col(Unit.known).is_not(None))


async def made(world, probes, seed: int = 3):
    """Verify a unit, let another one wait, and make a known-answer unit of the first."""
    miner, first = await world.node("miner"), await world.node("validator")
    await world.generate(miner)
    await world.audit(first)
    await world.generate(miner)
    await ready(world, random.Random(seed), probes)
    (unit,) = await known(world)
    return unit, miner, first


def passing(lease: AuditLease, rng: random.Random) -> list[str]:
    return ["verified"] * len(lease.work.samples)


def failing(lease: AuditLease, rng: random.Random) -> list[str]:
    return ["void"] * len(lease.work.samples)


def guessing(lease: AuditLease, rng: random.Random) -> list[str]:
    return rng.choices(["verified", "void"], k=len(lease.work.samples))


@pytest.mark.parametrize("judge", [passing, failing, guessing])
async def test_whoever_does_not_look_is_found_and_nobody_else(world, judge: Judge):
    rng = random.Random(7)
    order = await place(world, 16)
    honest = [await world.node("validator") for _ in range(2)]
    blind = await world.node("validator")
    probes = [new_keypair(), new_keypair()]
    for _ in range(60):
        # Always another, as one that fails all gets miners suspended here.
        await world.generate(await world.node("miner"))
        await ready(world, rng, probes)
        for validator in rng.sample([*honest, blind], 3):
            try:
                lease = await world.lease_audit(validator)
            except GatewayError as error:
                assert (validator, error.code) == (blind, "validator_distrusted")
                continue
            if lease is not None:
                votes = judge(lease, rng) if validator is blind else world.truth(lease)
                await world.judge(validator, lease, world.verdicts(validator, lease, votes))
        if await is_distrusted(world, blind):
            break
    assert await is_distrusted(world, blind)
    assert not any([await is_distrusted(world, validator) for validator in honest])
    # It is tried from the start once it is believed again.
    assert await world.rows(KnownAnswer, col(KnownAnswer.owner) == blind.coldkey) == []
    # Nothing of it is in the order's books.
    order = await world.order(order)
    verdicts = await world.rows(Verdict)
    assert sum(verdict.newly_verified for verdict in verdicts) == order.samples_verified
    assert order.samples_missing == 0
    units = await known(world)
    assert all(unit.outcomes == "" for unit in units)
    assert {verdict.unit_id for verdict in verdicts}.isdisjoint(unit.id for unit in units)


async def test_it_looks_like_any_miners_result(world):
    await place(world, 4)
    probe = new_keypair()
    unit, miner, _ = await made(world, [probe])
    second = await world.node("validator")
    leases = [await world.lease_audit(second) for _ in range(2)]
    (found,) = [lease for lease in leases if lease.work.unit_id == unit.id]
    (other,) = [lease for lease in leases if lease.work.unit_id != unit.id]
    assert (other.miner, found.miner) == (miner.hotkey, probe.ss58_address)
    assert not unproven(found)
    statement = audited_statement(found)
    assert verify_statement(found.record.gateway, statement, found.record.signature)
    assert found.result.stack == other.result.stack
    assert set(found.model_dump()) == set(other.model_dump())
    # Its own right verdicts are what an honest validator finds.
    letters = ["verified" if letter == "v" else "void" for letter in unit.known]
    assert world.truth(found) == letters and len(set(letters)) == 2


async def test_no_validator_gets_what_its_owner_saw_before(world):
    await place(world, 4)
    unit, _, first = await made(world, [new_keypair()])
    twin = await world.node("validator", owner=first.coldkey)
    await world.node("validator")
    for validator in (first, twin):
        lease = await world.lease_audit(validator)
        assert lease is None or lease.work.unit_id != unit.id


async def test_they_are_a_share_of_what_is_judged(world):
    await place(world, 16)
    world.policy = Policy(unit_samples=SAMPLES, known_answers=0.25)
    miner, validator = await world.node("miner"), await world.node("validator")
    other, rng = await world.node("validator"), random.Random(2)
    for turn in range(12):
        await world.generate(miner)
        await ready(world, rng, [new_keypair()])
        for judge in (validator, other)[:: 1 if turn % 2 else -1]:
            await world.audit(judge)
    assert 2 <= len(await known(world)) <= 4


@pytest.mark.parametrize("without", ["probes", "share", "window"])
async def test_there_are_none_without(world, without):
    order = await place(world, 4)
    if without == "share":
        world.policy = Policy(unit_samples=SAMPLES)
    miner, validator = await world.node("miner"), await world.node("validator")
    if without == "window":
        world.now = order.expires_at_ms - LEFT_MS
        for node in (miner, validator):
            await world.announce(node)
    await world.generate(miner)
    await world.audit(validator)
    await world.generate(miner)
    await ready(world, random.Random(1), [] if without == "probes" else [new_keypair()])
    assert await known(world) == []


async def test_one_that_nobody_answers_costs_its_order_nothing(world):
    order = await place(world, 4)
    unit, _, first = await made(world, [new_keypair()])
    await world.audit(first)
    before = await world.order(order)
    for _ in range(MAX_AUDITS):
        lease = await world.lease_audit(await world.node("validator"))
        assert lease.work.unit_id == unit.id
        world.now += world.policy.lease_ms
        await background.reap(world.store, lambda: world.now / 1000)
    (row,) = await known(world)
    assert row.state == "closed"
    after = await world.order(order)
    assert (after.samples_verified, after.samples_void, after.samples_missing) == (
        before.samples_verified,
        before.samples_void,
        before.samples_missing,
    )


async def test_the_same_verdicts_again_get_the_same_answer(world):
    await place(world, 4)
    unit, _, _ = await made(world, [new_keypair()])
    second = await world.node("validator")
    while (lease := await world.lease_audit(second)).work.unit_id != unit.id:
        pass
    verdicts = world.verdicts(second, lease, world.truth(lease))
    first = await world.judge(second, lease, verdicts)
    assert await world.judge(second, lease, verdicts) == first
    assert json.loads(first.detail)["verified"] == unit.known.count("v")
    (row,) = await world.rows(Lease, col(Lease.id) == lease.lease_id)
    assert row.state == "answered"


def test_a_real_validator_that_passes_everything_is_turned_away(tmp_path):
    """A node process's requests, rightly signed; made up are the tokens, and that it looks."""
    probe = tmp_path / "probe.json"
    settings = {"unit_samples": 64, "known_answers": 1.0, "probe_hotkeys": (probe,)}
    with (
        small_model_hub(tmp_path / "hub") as commit,
        live_gateway(tmp_path / "gateway", **settings) as gateway,
    ):
        loaded = LoadedModel(model=MODEL, revision=commit)
        # Two owners that pass everything: what one has seen goes to the other.
        attacker, other = Attacker(gateway, loaded, 0), Attacker(gateway, loaded, 0)
        batch = order(gateway, 130, max_tokens=64)
        refused, seen = None, set()
        while refused is None:
            lease = attacker.lease(64)
            rng = random.Random(lease.lease_id)
            ids = range(lease.work.vocabulary_size)
            legal = [token for token in ids if token not in lease.work.end_ids]
            samples = [rng.choices(legal, k=64) for _ in lease.work.samples]
            result = signed_result(attacker.miner, lease, STACK, samples)
            assert attacker.post(lease, result).status_code == 200
            gateway.run(made_ready(gateway, load_hotkey(probe)))
            refused = pass_all(attacker, seen) or pass_all(other, seen)
        assert refused["code"] == "validator_distrusted"
        assert load_hotkey(probe).ss58_address in seen
        end(gateway, batch)


async def made_ready(gateway, probe) -> None:
    """Do what the background does, without waiting for it."""
    state = gateway.state
    signers, secret = Signers(state.keypair, [probe]), random.Random(1).randbytes(32)
    policy, now_ms = state.settings.policy, state.now_ms()
    await known_units.keep_ready(state.store, signers, policy, secret, now_ms)


def pass_all(attacker, seen: set[str]) -> dict | None:
    """Verify whatever there is to audit; return the error that ends it, if one does."""
    body = {"role": "validator", "loaded": attacker.nodes.loaded.model_dump()}
    while True:
        answer = attacker.send(attacker.validator, POSTS, json.dumps(body).encode())
        if answer.status_code == 204:
            return None
        if answer.status_code != 200:
            return answer.json()["error"]
        audit = AuditLease.model_validate_json(answer.content)
        seen.add(audit.miner)
        path = f"{POSTS}/{audit.lease_id}/verdicts"
        answer = attacker.send(attacker.validator, path, attacker.nodes.verdicts(audit))
        if answer.status_code != 200:
            return answer.json()["error"]
