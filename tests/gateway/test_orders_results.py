"""Results and verdicts: what is taken, what is refused, and what it changes."""

import asyncio

import pytest
from outcomes import counts, refused
from second_opinions import record

from gateway.errors import GatewayError
from gateway.orders import leases
from gateway.orders.policy import MAX_AUDITS, MAX_TRIES
from gateway.store.tables import Lease, Node, Unit, Verdict
from protocol.messages import SampleVerdict

PROMPTS = ((1, 2), (3,), (4, 5, 6), (7,))


async def test_verified_samples_count_once_and_settle_the_order(world):
    order = await world.place(PROMPTS, n=2)
    miner, validator = await world.node("miner"), await world.node("validator")
    seen = []
    for _ in range(2):
        lease = await world.generate(miner)
        audit = await world.audit(validator)
        assert audit.miner == miner.hotkey and audit.work == lease.work
        seen.append(counts(await world.order(order)))
    assert seen == [(4, 0, 0, 2), (8, 0, 0, 4)]
    order = await world.order(order)
    assert (order.status, order.ending) == ("finalizing", "completed")
    verdicts = await world.rows(Verdict)
    assert sum(verdict.tokens for verdict in verdicts) == order.tokens_verified
    assert await world.lease(miner) is None and await world.lease_audit(validator) is None


async def test_void_samples_go_to_another_miner(world):
    order = await world.place(PROMPTS)
    cheat, honest = await world.node("miner"), await world.node("miner")
    validator = await world.node("validator")
    first = await world.generate(cheat)
    await world.audit(validator, ["verified", "void", "verified", "void"])
    assert counts(await world.order(order)) == (2, 2, 0, 2)
    assert await world.lease(cheat) is None
    again = await world.generate(honest)
    assert again.work.unit_id != first.work.unit_id
    assert again.attempt == first.attempt + 1
    assert again.work.prompts == [[3], [7]]
    await world.audit(validator)
    order = await world.order(order)
    assert counts(order) == (4, 2, 0, 4) and order.status == "finalizing"
    assert await record(world, cheat) == "vvoo"


async def test_void_samples_go_back_to_the_only_miner(world):
    await world.place(PROMPTS)
    miner, validator = await world.node("miner"), await world.node("validator")
    await world.generate(miner)
    await world.audit(validator, ["void", "verified", "verified", "verified"])
    assert (await world.lease(miner)).work.prompts == [[1, 2]]


async def test_eight_voids_make_a_sample_missing(world):
    order = await world.place(PROMPTS)
    validator = await world.node("validator")
    votes = ["void", "verified", "verified", "verified"]
    for attempt in range(1, MAX_TRIES + 1):
        world.now += 1
        lease = await world.generate(await world.node("miner"))
        assert lease.attempt == attempt
        await world.audit(validator, votes[: len(lease.work.samples)])
    order = await world.order(order)
    assert counts(order) == (3, 8, 1, 3)
    assert (order.status, order.ending) == ("finalizing", "completed")
    assert len(await world.rows(Unit)) == MAX_TRIES


async def test_the_same_result_again_gets_the_same_answer(world):
    await world.place(PROMPTS)
    miner, validator = await world.node("miner"), await world.node("validator")
    lease = await world.lease(miner)
    result = world.result(miner, lease)
    first = await world.post(miner, lease, result)
    assert first.accepted
    assert await world.post(miner, lease, result) == first
    await world.audit(validator)
    world.now += 1_000_000
    assert await world.post(miner, lease, result) == first
    other = world.result(miner, lease, samples=[[95]] * 4)
    await refused(world.post(miner, lease, other), 409, "lease_over")


async def test_twin_posts_at_once_are_one(world):
    await world.place(PROMPTS)
    miner = await world.node("miner")
    lease = await world.lease(miner)
    same = [world.result(miner, lease)] * 4
    other = world.result(miner, lease, samples=[[95]] * 4)
    answers = await asyncio.gather(
        *(world.post(miner, lease, result) for result in [*same, other]), return_exceptions=True
    )
    taken = [answer for answer in answers if not isinstance(answer, Exception)]
    lost = [answer for answer in answers if isinstance(answer, Exception)]
    assert {len(taken), len(lost)} == {4, 1}
    assert all(isinstance(error, GatewayError) and error.code == "lease_over" for error in lost)
    (row,) = await world.rows(Lease)
    assert row.state == "answered"


async def test_a_late_result_changes_nothing(world):
    order = await world.place(PROMPTS)
    late, other = await world.node("miner"), await world.node("miner")
    lease = await world.lease(late)
    world.now += world.policy.lease_ms
    await leases.reap(world.store, lease.lease_id, world.now)
    await refused(world.post(late, lease), 409, "lease_over")
    taken = await world.lease(other)
    await refused(world.post(late, lease), 409, "lease_over")
    assert counts(await world.order(order)) == (0, 0, 0, 0)
    assert (await world.post(other, taken)).accepted


async def test_a_lapsed_lease_that_nobody_took_may_still_answer(world):
    await world.place(PROMPTS)
    miner = await world.node("miner")
    lease = await world.lease(miner)
    world.now += 10 * world.policy.lease_ms
    assert (await world.post(miner, lease)).accepted


@pytest.mark.parametrize(
    "change",
    [
        {"attempt": 2},
        {"lease_digest": "11" * 32},
        {"root": "11" * 32},
        {"signature": "22" * 64},
        {"unit_id": "0" * 36},
    ],
)
async def test_a_result_that_is_not_the_leases_leaves_the_lease(sqlite_world, change):
    world = sqlite_world
    await world.place(PROMPTS)
    miner = await world.node("miner")
    lease = await world.lease(miner)
    await refused(
        world.post(miner, lease, world.result(miner, lease, **change)), 400, "invalid_result"
    )
    assert await record(world, miner) == ""
    assert (await world.post(miner, lease)).accepted


@pytest.mark.parametrize(
    ("bad", "rule"),
    [
        ([1, 2, 96], "sample 1: id 96 is outside 0 .. 95"),
        ([1, 2, 2**31 - 1], "sample 1: id 2147483647 is outside 0 .. 95"),
        ([1, 2, 3, 4, 5, 6, 7], "sample 1: it has 7 ids, max_tokens is 6"),
        ([1, 95, 95], "sample 1: the end id 95 at position 1 is not its last"),
        ([1, 2, 3], "sample 1: it stops after 3 of 6 ids without an end id"),
        ([], "sample 1: it has no token ids"),
    ],
)
async def test_a_malformed_sample_refuses_the_whole_unit(sqlite_world, bad, rule):
    world = sqlite_world
    order = await world.place(PROMPTS)
    miner, other = await world.node("miner"), await world.node("miner")
    validator = await world.node("validator")
    lease = await world.lease(miner)
    result = world.result(miner, lease, samples=[[95], bad, [95], [95]])
    for _ in range(2):
        message = await refused(world.post(miner, lease, result), 422, "malformed_result")
        assert rule in message
    assert await world.lease_audit(validator) is None
    assert counts(await world.order(order)) == (0, 4, 0, 0)
    # Nobody else needs to be verified: what is malformed shows without a model.
    await refused(world.lease(miner), 403, "miner_suspended")
    assert (await world.generate(other)).attempt == 2


@pytest.mark.parametrize("count", [3, 5])
async def test_a_result_of_another_number_of_samples_is_refused(sqlite_world, count):
    world = sqlite_world
    await world.place(PROMPTS)
    miner = await world.node("miner")
    lease = await world.lease(miner)
    result = world.result(miner, lease, samples=[[95]] * count)
    message = await refused(world.post(miner, lease, result), 422, "malformed_result")
    assert f"the unit has 4 samples, the result {count}" in message


async def test_samples_at_their_limits_are_legal(sqlite_world):
    world = sqlite_world
    await world.place(PROMPTS)
    miner = await world.node("miner")
    lease = await world.lease(miner)
    samples = [[95], [1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 95], [0, 95]]
    assert (await world.post(miner, lease, world.result(miner, lease, samples=samples))).accepted


async def test_a_validator_never_audits_its_own_hotkeys_work(world):
    await world.place(PROMPTS)
    miner = await world.node("miner")
    await world.generate(miner)
    # The same key announces itself again, as a validator.
    same = type(miner)(miner.keypair, "validator")
    await world.announce(same)
    assert await world.lease_audit(same) is None
    assert await world.lease_audit(await world.node("validator")) is not None


async def test_a_validator_never_audits_its_owners_work(world):
    await world.place(PROMPTS)
    miner = await world.node("miner", owner="one")
    await world.generate(miner)
    assert await world.lease_audit(await world.node("validator", owner="one")) is None
    assert await world.lease_audit(await world.node("validator", owner="two")) is not None


async def test_an_idle_validator_keeps_no_result_from_the_only_one_at_work(world):
    await world.place(PROMPTS)
    miner = await world.node("miner")
    only, idle = await world.node("validator"), await world.node("validator")
    await world.generate(miner)
    await world.audit(only, "inconclusive")
    assert await world.lease_audit(only) is None
    world.now += world.policy.exclusion_ms
    for node in (only, idle):
        await world.announce(node)
    assert await world.lease_audit(only) is not None


async def test_inconclusive_samples_are_audited_by_another_validator(world):
    order = await world.place(PROMPTS)
    miner = await world.node("miner")
    first, second = await world.node("validator"), await world.node("validator")
    await world.generate(miner)
    await world.audit(first, ["verified", "inconclusive", "void", "inconclusive"])
    assert counts(await world.order(order)) == (1, 1, 0, 1)
    assert await world.lease_audit(first) is None
    assert await world.audit(second, ["void", "verified", "verified", "verified"]) is not None
    # What the first has decided stays.
    assert counts(await world.order(order)) == (3, 1, 0, 3)
    assert await record(world, miner) == "vovv"


async def test_what_nobody_can_judge_is_missing_and_no_miner_is_blamed(world):
    order = await world.place(PROMPTS)
    miner, validator = await world.node("miner"), await world.node("validator")
    await world.generate(miner)
    for _ in range(MAX_AUDITS):
        assert await world.audit(validator, "inconclusive") is not None
    order = await world.order(order)
    assert counts(order) == (0, 0, 4, 0) and order.status == "finalizing"
    assert await record(world, miner) == ""


async def test_a_dead_validators_audit_is_taken_over(world):
    order = await world.place(PROMPTS)
    miner = await world.node("miner")
    dead, alive = await world.node("validator"), await world.node("validator")
    await world.generate(miner)
    lost = await world.lease_audit(dead)
    world.now += world.policy.lease_ms
    await leases.reap(world.store, lost.lease_id, world.now)
    await world.audit(alive)
    assert counts(await world.order(order)) == (4, 0, 0, 4)
    late = world.judge(dead, lost, world.verdicts(dead, lost, ["void"] * 4))
    await refused(late, 409, "lease_over")
    assert counts(await world.order(order)) == (4, 0, 0, 4)


async def test_audits_are_leased_once_each_under_concurrency(world):
    await world.place([[place] for place in range(1, 41)])
    miner = await world.node("miner")
    for _ in range(10):
        await world.generate(miner)
    validators = [await world.node("validator") for _ in range(4)]
    leased = await asyncio.gather(*(world.lease_audit(validators[at % 4]) for at in range(24)))
    held = [lease.work.unit_id for lease in leased if lease is not None]
    assert len(held) == len(set(held))
    rest = [await world.lease_audit(validators[0]) for _ in range(11 - len(held))]
    assert len(held) + sum(lease is not None for lease in rest) == 10


async def test_concurrent_verdicts_lose_no_count(world):
    order = await world.place([[place] for place in range(1, 41)])
    miner = await world.node("miner")
    for _ in range(10):
        await world.generate(miner)
    validator = await world.node("validator")
    audits = [await world.lease_audit(validator) for _ in range(10)]
    posts = [world.verdicts(validator, audit, ["verified"] * 4) for audit in audits]
    await asyncio.gather(
        *(world.judge(validator, *pair) for pair in zip(audits, posts, strict=True))
    )
    order = await world.order(order)
    assert counts(order) == (40, 0, 0, 40) and order.status == "finalizing"


async def test_the_same_verdicts_again_get_the_same_answer(world):
    order = await world.place(PROMPTS)
    miner, validator = await world.node("miner"), await world.node("validator")
    await world.generate(miner)
    audit = await world.lease_audit(validator)
    verdicts = world.verdicts(validator, audit, ["verified"] * 4)
    first = await world.judge(validator, audit, verdicts)
    assert await world.judge(validator, audit, verdicts) == first
    assert counts(await world.order(order)) == (4, 0, 0, 4)
    other = world.verdicts(validator, audit, ["void"] * 4)
    await refused(world.judge(validator, audit, other), 409, "lease_over")


def wrong_tokens(audit) -> list[SampleVerdict]:
    return [
        SampleVerdict(outcome="verified", tokens=999, mismatches=0, largest_margin_micro=0)
        for _ in audit.work.samples
    ]


@pytest.mark.parametrize(
    "change",
    [
        lambda audit: {"attempt": 2},
        lambda audit: {"unit_id": "0" * 36},
        lambda audit: {"lease_digest": "11" * 32},
        lambda audit: {"result_root": "11" * 32},
        lambda audit: {"root": "11" * 32},
        lambda audit: {"samples": wrong_tokens(audit)},
        lambda audit: {"samples": wrong_tokens(audit)[:2]},
    ],
)
async def test_verdicts_on_something_else_leave_the_lease(sqlite_world, change):
    world = sqlite_world
    await world.place(PROMPTS)
    miner, validator = await world.node("miner"), await world.node("validator")
    await world.generate(miner)
    audit = await world.lease_audit(validator)
    bad = world.verdicts(validator, audit, ["verified"] * 4, **change(audit))
    await refused(world.judge(validator, audit, bad), 400, "invalid_verdicts")
    forged = world.verdicts(await world.node("validator"), audit, ["verified"] * 4)
    await refused(world.judge(validator, audit, forged), 400, "invalid_verdicts")
    good = world.verdicts(validator, audit, ["verified"] * 4)
    assert (await world.judge(validator, audit, good)).accepted


async def test_a_miners_speed_is_learnt(sqlite_world):
    world = sqlite_world
    await world.place([[place] for place in range(1, 9)], max_tokens=6)
    miner = await world.node("miner")
    speeds = []
    for _ in range(2):
        lease = await world.lease(miner)
        world.now += 2_000
        await world.post(miner, lease, world.result(miner, lease, samples=[[1] * 6] * 4))
        (node,) = await world.rows(Node)
        speeds.append(node.tokens_per_second)
    assert speeds == [12.0, 12.0]
