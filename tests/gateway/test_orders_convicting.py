"""Convictions: by evidence over many samples that pass one by one, and by two owners' word."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sqlmodel import col

from gateway.errors import GatewayError
from gateway.orders import convicting
from gateway.orders.policy import HOUR, MAX_TRIES, Policy
from gateway.store.tables import Node, Trail
from protocol.messages import AuditLease
from scoring.profile import BINS, Profile
from scoring.sample_rule import judge_sample
from tests.support.profiles import ASSUMED, made_profile

# Every sample shows one margin that no honest token of the profile shows.
PROMPTS = [[number] for number in range(1, 13)]
# A prompt whose sample is long enough to be void by small margins alone.
LONG = [[6]]
END = 95
UNITS = Policy(unit_samples=4)


@pytest.fixture
def world(world):
    world.policy = UNITS
    return world


@pytest.fixture
def profile(monkeypatch: pytest.MonkeyPatch) -> Profile:
    """A profile for the fake stacks of these tests, as if it had been measured and published."""
    measured = made_profile([90_000], [np.eye(BINS)[0]])
    monkeypatch.setattr("scoring.published.published", lambda: (measured, ASSUMED))
    return measured


async def judge(world, validator, found: Sequence[dict[str, Any]]) -> AuditLease | None:
    """Judge the next result; ``found`` has what is not ordinary of each sample's verdict."""
    lease = await world.lease_audit(validator)
    if lease is not None:
        posted = world.verdicts(validator, lease, ["verified"] * len(lease.work.samples))
        samples = [
            sample.model_copy(update=fields)
            for sample, fields in zip(posted.samples, found, strict=True)
        ]
        document = posted.model_copy(update={"samples": samples})
        await world.judge(validator, lease, world.signed_again(validator, lease, document))
    return lease


def shown(marks: Sequence[tuple[int, int, int]]) -> dict[str, Any]:
    """Return the fields of a verified sample with these marks."""
    return {
        "mismatches": len(marks),
        "largest_margin_micro": 20_000 * len(marks),
        "marks": list(marks),
        "abstained": bool(marks),
    }


def void(profile: Profile, tokens: int) -> dict[str, Any]:
    """Return the fields of a sample whose every token shows a margin, which voids it."""
    marks = [(position, 0, 4) for position in range(tokens)]
    violation = judge_sample(profile, tokens, marks).violation
    assert violation is not None
    fields = shown(marks[: violation.position + 1])
    return fields | {
        "outcome": "void",
        "reason": violation.reason,
        "position": violation.position,
    }


async def audit(world, validator, marks: Sequence[tuple[int, int, int]]) -> AuditLease | None:
    """Verify every sample of the next result, with these marks to each."""
    return await judge(world, validator, [shown(marks)] * 4)


async def is_convicted(world, miner) -> bool:
    (row,) = await world.rows(Node, col(Node.hotkey) == miner.hotkey)
    return row.convicted_at_ms is not None


async def test_small_margins_in_every_sample_convict_a_miner(world, profile):
    order = await world.place(PROMPTS)
    miner, only = await world.node("miner"), await world.node("validator")
    await world.generate(miner)
    await audit(world, only, [(0, 0, 4)])
    assert await is_convicted(world, miner)
    with pytest.raises(GatewayError) as refused:
        await world.lease(miner)
    assert (refused.value.status, refused.value.code) == (403, "miner_convicted")
    # What it made and nobody has been given is made again, by another.
    assert (await world.order(order)).samples_verified == 4
    await convicting.redo_undelivered(world.store, world.now)
    order = await world.order(order)
    assert (order.samples_verified, order.tokens_verified, order.samples_void) == (0, 0, 4)
    await convicting.redo_undelivered(world.store, world.now)
    honest = await world.node("miner")
    while await world.generate(honest):
        await audit(world, only, [])
    order = await world.order(order)
    assert (order.status, order.samples_verified, order.samples_void) == ("finalizing", 12, 4)
    assert not await is_convicted(world, honest)


async def test_one_owner_convicts_nobody_where_another_lives(world, profile):
    await world.place(PROMPTS)
    miner = await world.node("miner")
    first, second = await world.node("validator"), await world.node("validator")
    for _ in range(2):
        await world.generate(miner)
        await audit(world, first, [(0, 0, 4)])
    assert not await is_convicted(world, miner)
    assert len(await world.rows(Trail)) == 1
    await world.generate(miner)
    await audit(world, second, [(0, 0, 4)])
    assert await is_convicted(world, miner)


async def test_a_trail_goes_on_over_results(world, profile):
    order = await world.place(PROMPTS)
    miner, only = await world.node("miner"), await world.node("validator")
    for _ in range(3):
        await world.generate(miner)
        await audit(world, only, [])
    (row,) = await world.rows(Trail)
    assert row.tokens == (await world.order(order)).tokens_verified
    assert row.peak < 1


async def test_a_profile_that_is_too_small_leaves_no_trail(world):
    await world.place(PROMPTS)
    miner, only = await world.node("miner"), await world.node("validator")
    await world.generate(miner)
    await world.audit(only)
    assert await world.rows(Trail) == []


async def test_a_sample_that_is_audited_again_counts_once(world, profile):
    await world.place(PROMPTS)
    miner, only = await world.node("miner"), await world.node("validator")
    lease = await world.generate(miner)
    failed = {"outcome": "inconclusive", "reason": "out of memory"}
    for _ in range(6):
        await judge(world, only, [shown([(0, 0, 4)]), failed, failed, failed])
    (row,) = await world.rows(Trail)
    assert row.tokens == len(world.answers(lease.work)[0])
    assert not await is_convicted(world, miner)


async def test_what_is_generated_again_is_no_evidence(world, profile):
    # The draw gives the same ids with the same margins, so one bad chance would count many times.
    await world.place(LONG)
    miner, only = await world.node("miner"), await world.node("validator")
    tokens = []
    for _ in range(3):
        lease = await world.generate(miner)
        tokens.append(len(world.answers(lease.work)[0]))
        await judge(world, only, [void(profile, tokens[-1])])
    (row,) = await world.rows(Trail)
    assert row.tokens == tokens[0]
    assert not await is_convicted(world, miner)


async def test_a_second_opinion_on_void_samples_is_no_evidence(world, profile):
    world.policy = replace(UNITS, second_opinions=1e-9)
    await world.place(LONG)
    miner = await world.node("miner")
    first, second = await world.node("validator"), await world.node("validator")
    lease = await world.generate(miner)
    found = [void(profile, len(world.answers(lease.work)[0]))]
    await judge(world, first, found)
    await judge(world, second, found)
    (row,) = await world.rows(Trail)
    assert row.owner == first.coldkey


async def test_an_owner_that_was_there_today_still_has_its_say(world, profile):
    await world.place(PROMPTS)
    miner, only = await world.node("miner"), await world.node("validator")
    await world.node("validator")
    world.now += HOUR
    await world.announce(miner)
    await world.announce(only)
    await world.generate(miner)
    await audit(world, only, [(0, 0, 4)])
    assert not await is_convicted(world, miner)


async def test_an_order_is_not_delivered_by_the_verdict_that_convicts(world, profile):
    order = await world.place(PROMPTS[:4])
    miner, only = await world.node("miner"), await world.node("validator")
    await world.generate(miner)
    await audit(world, only, [(0, 0, 4)])
    assert await is_convicted(world, miner)
    order = await world.order(order)
    assert (order.status, order.samples_verified) == ("in_progress", 4)
    await convicting.redo_undelivered(world.store, world.now)
    honest = await world.node("miner")
    await world.generate(honest)
    await audit(world, only, [])
    order = await world.order(order)
    assert (order.status, order.samples_verified, order.samples_void) == ("finalizing", 4, 4)


async def test_an_order_ends_where_a_convicted_miner_had_the_last_try(world, profile):
    order = await world.place(PROMPTS[:4])
    miner, only = await world.node("miner"), await world.node("validator")
    failing = [await world.node("miner") for _ in range(MAX_TRIES - 1)]
    for other in failing:
        lease = await world.lease(other)
        samples = [[END, END]] * len(lease.work.samples)
        with pytest.raises(GatewayError, match="refused"):
            await world.post(other, lease, world.result(other, lease, samples=samples))
    await world.generate(miner)
    await audit(world, only, [(0, 0, 4)])
    assert await is_convicted(world, miner)
    await convicting.redo_undelivered(world.store, world.now)
    order = await world.order(order)
    assert (order.status, order.samples_verified, order.samples_missing) == ("finalizing", 0, 4)
