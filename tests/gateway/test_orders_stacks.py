"""Stacks: no declaration spares a miner the measured bounds, where there are such."""

from dataclasses import replace

import numpy as np
import pytest
from sqlmodel import col
from world import MODEL, STACK

from gateway.errors import GatewayError
from gateway.orders.policy import Policy
from gateway.orders.stacks import AT_WORK_MS
from gateway.store.tables import Lease, Node, Trail
from protocol.messages import Stack
from scoring.profile import BINS, Profile, Side
from scoring.published import is_vouched_for, side_of
from scoring.sample_rule import Ground
from tests.support.profiles import ASSUMED, made_profile

PROMPTS = [[number] for number in range(1, 41)]
# Nobody measured this one.
OTHER = STACK.model_copy(update={"engine": "vllm"})
FREE_TEXT = ("version", "kernels")
# A token that is off by more than half a logit, as a cheat's often are; it voids no sample.
FAR_OFF = (0, 0, 10)


@pytest.fixture
def world(sqlite_world):
    sqlite_world.policy = Policy(unit_samples=4)
    return sqlite_world


def publish(monkeypatch: pytest.MonkeyPatch, family: str) -> Profile:
    """Publish a profile for the fake stacks of these tests, besides the assumed one."""
    side: Side = side_of(STACK)
    made = made_profile([90_000], [np.eye(BINS)[0]])
    measured = made.model_copy(update={"family": family, "miner": side, "validator": side})
    monkeypatch.setattr("scoring.published.published", lambda: (measured, ASSUMED))
    return measured


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Profile:
    return publish(monkeypatch, MODEL)


async def judge(world, validator, marks) -> None:
    """Verify the next result, with these marks to each sample."""
    lease = await world.lease_audit(validator)
    posted = world.verdicts(validator, lease, ["verified"] * len(lease.work.samples))
    fields = {"mismatches": len(marks), "marks": marks}
    samples = [sample.model_copy(update=fields) for sample in posted.samples]
    document = posted.model_copy(update={"samples": samples})
    await world.judge(validator, lease, world.signed_again(validator, lease, document))


async def is_convicted(world, miner) -> bool:
    (row,) = await world.rows(Node, col(Node.hotkey) == miner.hotkey)
    return row.convicted_at_ms is not None


def test_what_ships_vouches_for_no_model_of_a_customers_choice() -> None:
    assert is_vouched_for("reliquary/tiny-qwen3")
    assert not is_vouched_for("a-customer/model")


async def test_a_result_is_of_the_stack_that_was_announced(world):
    await world.place(PROMPTS)
    miner = await world.node("miner")
    lease = await world.lease(miner)
    # Its words choose the profile, where one was measured under the very same.
    for other in (OTHER, *(STACK.model_copy(update={name: "other"}) for name in FREE_TEXT)):
        with pytest.raises(GatewayError, match="stack is not the one that was announced"):
            await world.post(miner, lease, world.result(miner, lease, stack=other))
    assert (await world.post(miner, lease, world.result(miner, lease))).accepted
    (row,) = await world.rows(Lease)
    assert Stack.model_validate_json(row.stack_json) == STACK


async def test_verdicts_are_of_the_stack_that_was_announced(world):
    await world.place(PROMPTS)
    miner, validator = await world.node("miner"), await world.node("validator")
    await world.generate(miner)
    lease = await world.lease_audit(validator)
    votes = ["verified"] * 4
    elsewhere = replace(validator, stack=OTHER)
    with pytest.raises(GatewayError, match="stack is not the one that was announced"):
        await world.judge(validator, lease, world.verdicts(elsewhere, lease, votes))
    assert (await world.judge(validator, lease, world.verdicts(validator, lease, votes))).accepted


@pytest.mark.parametrize("role", ["miner", "validator"])
async def test_no_lease_without_the_stack_that_it_is_worked_with(world, role):
    await world.place(PROMPTS)
    await world.generate(await world.node("miner"))
    undecided = STACK.model_copy(update={"dtype": "auto"})
    ask = world.lease if role == "miner" else world.lease_audit
    for node in (
        await world.node(role, stack=undecided),
        await world.node(role, loaded=False),
    ):
        with pytest.raises(GatewayError) as refused:
            await ask(node)
        assert (refused.value.status, refused.value.code) == (403, "not_announced")
        await world.announce(replace(node, stack=STACK))
        assert await ask(node) is not None or role == "validator"


async def test_an_unmeasured_stack_yields_while_measured_ones_work(world, measured):
    order = await world.place(PROMPTS)
    honest, hiding = await world.node("miner"), await world.node("miner", stack=OTHER)
    validator = await world.node("validator")
    await world.prove(hiding)
    # One that holds the model and never works keeps nobody from it.
    released = await world.lease(hiding)
    assert released is not None
    await world.generate(honest)
    assert await world.lease(hiding) is None
    assert await world.lease(await world.node("miner")) is not None
    # Nor does one that did once.
    world.now += AT_WORK_MS
    for node in (honest, hiding, validator):
        await world.announce(node)
    assert await world.lease(hiding) is not None
    await world.generate(honest)
    assert await world.lease(hiding) is None
    # No miner at work can keep an order from others to its end.
    world.now += round(world.policy.window_share * (order.expires_at_ms - order.created_at_ms))
    for node in (honest, hiding, validator):
        await world.announce(node)
    await world.generate(honest)
    assert await world.lease(hiding) is not None


async def test_without_a_validator_to_measure_by_all_are_alike(world, measured):
    await world.place(PROMPTS)
    honest, other = await world.node("miner"), await world.node("miner", stack=OTHER)
    await world.node("validator", stack=OTHER)
    await world.generate(honest)
    assert await world.lease(other) is not None


async def test_a_declared_stack_hides_no_cheat_of_a_measured_model(world, measured):
    order = await world.place(PROMPTS)
    hiding, validator = await world.node("miner", stack=OTHER), await world.node("validator")
    convicted = 0
    for _ in range(4):
        await world.generate(hiding)
        await judge(world, validator, [FAR_OFF])
        convicted += await is_convicted(world, hiding)
        if convicted:
            break
    assert convicted
    (trail,) = await world.rows(Trail)
    assert (trail.ground, trail.miner) == (Ground.ASSUMED, hiding.hotkey)
    assert trail.tokens == (await world.order(order)).tokens_verified


async def test_small_margins_of_an_unmeasured_stack_convict_nobody(world, measured):
    await world.place(PROMPTS)
    miner, validator = await world.node("miner", stack=OTHER), await world.node("validator")
    for _ in range(10):
        await world.generate(miner)
        await judge(world, validator, [])
    (trail,) = await world.rows(Trail)
    assert trail.peak < 1


async def test_weights_of_a_customers_choice_convict_nobody(world, monkeypatch):
    # Whoever orders a model whose weights round badly must not get honest miners convicted.
    publish(monkeypatch, "reliquary/*")
    await world.place(PROMPTS)
    miner, validator = await world.node("miner"), await world.node("validator")
    for _ in range(10):
        await world.generate(miner)
        await judge(world, validator, [FAR_OFF])
    assert await world.rows(Trail) == []
