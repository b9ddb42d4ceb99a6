"""Convictions: by evidence over many samples that pass one by one, and by two owners' word."""

from collections.abc import Sequence

import numpy as np
import pytest
from sqlmodel import col

from gateway.errors import GatewayError
from gateway.orders import convicting
from gateway.orders.policy import Policy
from gateway.store.tables import Node, Trail
from protocol.messages import AuditLease, SampleVerdict
from scoring.profile import BINS, Profile
from tests.support.profiles import made_profile

# Every sample shows one margin that no honest token of the profile shows.
PROMPTS = [[number] for number in range(1, 13)]
UNITS = Policy(unit_samples=4)


@pytest.fixture
def world(world):
    world.policy = UNITS
    return world


@pytest.fixture
def profile(monkeypatch: pytest.MonkeyPatch) -> Profile:
    """A profile for the fake stacks of these tests, as if it had been measured and published."""
    measured = made_profile([90_000], [np.eye(BINS)[0]])
    monkeypatch.setattr("scoring.published.published", lambda: {measured.digest: measured})
    return measured


async def audit(world, validator, marks: Sequence[tuple[int, int, int]]) -> AuditLease | None:
    """Verify every sample of the next result, with these marks to each."""
    lease = await world.lease_audit(validator)
    if lease is not None:
        samples = [
            SampleVerdict(
                outcome="verified",
                tokens=len(ids),
                mismatches=len(marks),
                largest_margin_micro=20_000 * len(marks),
                marks=list(marks),
                abstained=bool(marks),
            )
            for ids in lease.result.samples
        ]
        posted = world.verdicts(validator, lease, ["verified"] * len(samples))
        document = posted.model_copy(update={"samples": samples})
        await world.judge(validator, lease, world.signed_again(validator, lease, document))
    return lease


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


async def test_an_owner_that_is_not_believed_has_no_trails(world, profile):
    await world.place(PROMPTS)
    miner, only = await world.node("miner"), await world.node("validator")
    await world.generate(miner)
    await audit(world, only, [])
    async with world.store.write() as session:
        await convicting.forget(session, only.coldkey)
    assert await world.rows(Trail) == []


async def test_a_profile_that_is_too_small_leaves_no_trail(world):
    await world.place(PROMPTS)
    miner, only = await world.node("miner"), await world.node("validator")
    await world.generate(miner)
    await world.audit(only)
    assert await world.rows(Trail) == []
