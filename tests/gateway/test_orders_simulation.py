"""Seeded chaos: nodes die, repeat, cheat and come late; the books must balance at each step."""

import random
from collections import Counter

import pytest
from sqlmodel import col

from gateway.errors import GatewayError
from gateway.orders import background, dispatch, leases, reviewing
from gateway.orders.policy import HOUR, Policy
from gateway.orders.samples import MISSING, UNDECIDED, VERIFIED, ordinals, read_bits
from gateway.store.tables import Lease, LeaseState, Review, ReviewState, Unit, UnitState, Verdict
from protocol.chain.local import LocalChain
from protocol.messages import Heartbeat

STEPS = 120
# Seeds and shares of second opinions of the slow suite.
MORE = ((0, 0.0), (1, 0.0), (1, 0.5))
N = 3
REFUSALS = {
    "lease_over",
    "leases_unanswered",
    "malformed_result",
    "miner_suspended",
    "validator_distrusted",
}
OUTCOMES = ("verified", "verified", "verified", "void", "inconclusive")


class Chaos:
    """Random acts of random nodes on one order."""

    def __init__(self, world, chain, seed: int) -> None:
        self.world = world
        self.chain = chain
        self.random = random.Random(seed)
        self.miners = []
        self.validators = []
        self.generating = []
        self.auditing = []

    async def begin(self):
        self.miners = [await self.world.node("miner") for _ in range(4)]
        self.validators = [await self.world.node("validator") for _ in range(2)]
        prompts = [[1 + place % 7, 2] for place in range(20)]
        return await self.world.place(prompts, n=N)

    async def act(self) -> None:
        acts = (
            (self.lease, 4),
            (self.post, 4),
            (self.lease_audit, 4),
            (self.judge, 4),
            (self.beat, 2),
            (self.release, 1),
            (self.wait, 1),
        )
        act = self.random.choices([act for act, _ in acts], [weight for _, weight in acts])[0]
        try:
            await act()
        except GatewayError as error:
            assert error.code in REFUSALS

    async def lease(self) -> None:
        miner = self.random.choice(self.miners)
        lease = await self.world.lease(miner)
        if lease is not None:
            self.generating.append((miner, lease, None))

    async def post(self) -> None:
        if not self.generating:
            return
        place = self.random.randrange(len(self.generating))
        miner, lease, result = self.generating[place]
        if result is None:
            result = self.world.result(miner, lease)
            if self.random.random() < 0.05:
                samples = [[1], *result.samples[1:]]
                result = self.world.result(miner, lease, samples=samples)
            # Kept, so that it is posted again at some time.
            self.generating[place] = (miner, lease, result)
        await self.world.post(miner, lease, result)

    async def lease_audit(self) -> None:
        validator = self.random.choice(self.validators)
        lease = await self.world.lease_audit(validator)
        if lease is not None:
            votes = self.random.choices(OUTCOMES, k=len(lease.work.samples))
            self.auditing.append((validator, lease, votes))

    async def judge(self) -> None:
        if self.auditing:
            validator, lease, votes = self.random.choice(self.auditing)
            await self.world.judge(validator, lease, self.world.verdicts(validator, lease, votes))

    async def beat(self) -> None:
        held = self.generating + self.auditing
        if held:
            node, lease, _ = self.random.choice(held)
            await leases.heartbeat(
                self.world.store,
                node.hotkey,
                lease.lease_id,
                Heartbeat(tokens=self.random.randrange(1, 1_000)),
                self.world.policy,
                self.world.now,
            )

    async def release(self) -> None:
        held = self.generating + self.auditing
        if held:
            node, lease, _ = self.random.choice(held)
            await dispatch.release(self.world.store, node.hotkey, lease.lease_id, self.world.now)

    async def wait(self) -> None:
        self.world.now += self.random.randrange(2 * self.world.policy.lease_ms)
        await self.attend()
        for node in self.miners + self.validators:
            if self.random.random() < 0.8:
                await self.world.announce(node)
        if self.random.random() < 0.3:
            # Honest newcomers, since the others end up suspended.
            self.miners.append(await self.world.node("miner"))

    async def attend(self) -> None:
        """Do the gateway's background work."""
        world = self.world
        await background.reap(world.store, lambda: world.now / 1000)
        await background.end_orders(world.store, world.policy, lambda: world.now / 1000)
        await reviewing.attend(world.store, self.chain, world.policy, world.now)


async def check_books(world, order) -> None:
    """Compare the order's counters with what its units, leases and verdicts say."""
    order = await world.order(order)
    units = await world.rows(Unit, col(Unit.order_id) == order.id)
    verdicts = await world.rows(Verdict, col(Verdict.order_id) == order.id)
    live = await world.rows(Lease, col(Lease.state) == LeaseState.LIVE)
    verified = [
        ordinal
        for unit in units
        for ordinal, letter in zip(ordinals(unit, N).tolist(), unit.outcomes, strict=True)
        if letter == VERIFIED
    ]
    assert len(verified) == len(set(verified)) == order.samples_verified
    bits = {
        unit.first_line * N + place
        for unit in units
        if unit.parent_id is None
        for place, bit in enumerate(read_bits(unit.verified_bits, unit.samples))
        if bit
    }
    assert bits == set(verified)
    complete = sum(
        all(line * N + choice in bits for choice in range(N)) for line in range(order.lines_usable)
    )
    assert complete == order.lines_completed
    assert sum(verdict.newly_verified for verdict in verdicts) == order.samples_verified
    assert sum(verdict.tokens for verdict in verdicts) == order.tokens_verified
    missing = sum(unit.outcomes.count(MISSING) for unit in units)
    pending = sum(
        unit.outcomes.count(UNDECIDED) for unit in units if unit.state != UnitState.CLOSED
    )
    assert missing == order.samples_missing
    # No sample is lost and none is doubled.
    assert order.samples_verified + missing + pending == order.cursor_line * N
    held = {unit.id for unit in units if unit.state in (UnitState.LEASED, UnitState.AUDITING)}
    holders = Counter(lease.unit_id for lease in live if lease.review_id is None)
    assert set(holders) == held
    # Two miners are at one unit where all others are given out, and no two validators ever.
    shared = {unit_id for unit_id, count in holders.items() if count > 1}
    assert all(count <= 2 for count in holders.values())
    assert shared <= {unit.id for unit in units if unit.state == UnitState.LEASED}
    assert not shared or order.cursor_line == order.lines_usable
    twice = [lease for lease in live if lease.unit_id in shared]
    assert len({lease.hotkey for lease in twice}) >= min(2, len(twice))
    reviews = await world.rows(Review, col(Review.state) != ReviewState.CLOSED)
    second = [lease.review_id for lease in live if lease.review_id is not None]
    assert sorted(second) == sorted(r.id for r in reviews if r.state == ReviewState.AUDITING)
    settled = order.samples_verified + missing == order.samples_total and not reviews
    assert order.status == ("finalizing" if settled else "in_progress")


async def simulate(world, seed: int, second_opinions: float) -> None:
    world.policy = Policy(unit_samples=7, audit_backlog=4, second_opinions=second_opinions)
    chain = LocalChain(world.folder / "chain.sqlite", lambda: world.now / 1000)
    chaos = Chaos(world, chain, seed)
    order = await chaos.begin()
    await chaos.lease()
    for _ in range(STEPS):
        await chaos.act()
        await check_books(world, order)
    # Honest nodes end what chaos has left.
    miner, validator = await world.node("miner"), await world.node("validator")
    while (await world.order(order)).status == "in_progress":
        world.now += world.policy.live_ms + 1
        await chaos.attend()
        await world.announce(miner)
        await world.announce(validator)
        await world.finish(miner, validator)
        await check_books(world, order)


@pytest.mark.parametrize(
    ("seed", "second_opinions"),
    [(0, 0.5), *(pytest.param(*more, marks=pytest.mark.slow) for more in MORE)],
)
async def test_the_books_balance_whatever_nodes_do(sqlite_world, seed: int, second_opinions: float):
    await simulate(sqlite_world, seed, second_opinions)


async def test_the_books_balance_on_either_database(world):
    await simulate(world, 1_000, 0.5)


class Squatters:
    """Nodes that take up work and do none: what they hold must come free in time.

    Two miners lease what they can and beat with invented progress, one lives and never leases, one
    leases and lets go. Two validators lease and give back, or hold with invented progress; one
    lives and never leases.
    """

    def __init__(self, world) -> None:
        self.world = world
        self.held = []
        self.clock = 0

    async def begin(self):
        node = self.world.node
        self.holders = [(await node("miner"), self.world.lease) for _ in range(2)]
        self.holders.append((await node("validator"), self.world.lease_audit))
        self.throwers = [(await node("miner"), self.world.lease)]
        self.throwers.append((await node("validator"), self.world.lease_audit))
        idle = [await node("miner"), await node("validator")]
        self.nodes = [one for one, _ in self.holders + self.throwers] + idle

    async def act(self) -> None:
        self.clock += 1
        for node in self.nodes:
            await self.world.announce(node)
        for node, lease_one in self.holders:
            lease = await unless_refused(lease_one(node))
            if lease is not None:
                self.held.append((node, lease))
        for node, lease_one in self.throwers:
            while (lease := await unless_refused(lease_one(node))) is not None:
                store, now = self.world.store, self.world.now
                await dispatch.release(store, node.hotkey, lease.lease_id, now)
        for node, lease in list(self.held):
            tokens = Heartbeat(tokens=self.clock)
            answer = await leases.heartbeat(
                self.world.store,
                node.hotkey,
                lease.lease_id,
                tokens,
                self.world.policy,
                self.world.now,
            )
            if answer.stop:
                self.held.remove((node, lease))


async def unless_refused(lease):
    try:
        return await lease
    except GatewayError as error:
        assert error.code == "leases_unanswered"
        return None


async def test_squatters_cannot_keep_an_order_from_one_honest_pair(sqlite_world):
    world = sqlite_world
    world.policy = Policy(unit_samples=4, leases_at_once=4)
    order = await world.place([[1 + place, 2] for place in range(48)])
    squatters = Squatters(world)
    await squatters.begin()
    miner, validator = await world.node("miner"), await world.node("validator")
    while (order := await world.order(order)).status in ("validating", "in_progress"):
        await squatters.act()
        for node in (miner, validator):
            await world.announce(node)
        await world.generate(miner)
        await world.audit(validator)
        world.now += world.policy.lease_ms - 1
        await background.reap(world.store, lambda: world.now / 1000)
        await background.end_orders(world.store, world.policy, lambda: world.now / 1000)
    assert (order.ending, order.samples_verified, order.samples_missing) == ("completed", 48, 0)
    # With a minute a unit the honest pair needs 12; the squatters cost it less than two hours.
    assert world.now - order.created_at_ms < 2 * HOUR
