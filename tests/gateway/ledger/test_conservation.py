"""Random orders, honest and other nodes, cancels, ends of windows, failing exports: money is kept.

What customers paid in is what they have left and what they were charged, and each charge follows
from verified tokens alone.
"""

import random

import pytest
from books import check_money
from exports import run_export
from sqlmodel import col

from gateway.errors import GatewayError
from gateway.ledger.balance import balances
from gateway.ledger.money import usd_of
from gateway.orders import background, export, life, reviewing
from gateway.orders.failing import note_failure
from gateway.orders.policy import HOUR, MINUTE, Policy
from gateway.store.tables import OPEN_STATUSES, Order, Verdict
from protocol.chain.local import LocalChain
from protocol.repository import RepositoryError

ACCOUNTS = ("account", "other")
STEPS = 80
SLOW = pytest.mark.slow
REFUSALS = {
    "batch_not_cancellable",
    "insufficient_balance",
    "lease_over",
    "leases_unanswered",
    "malformed_result",
    "miner_suspended",
    "validator_distrusted",
}


class Market:
    """Random acts of customers, nodes and the clock."""

    def __init__(self, world, model_folder, seed: int) -> None:
        self.world = world
        self.model_folder = model_folder
        self.random = random.Random(seed)
        self.chain = LocalChain(world.folder / "chain.sqlite", lambda: world.now / 1000)
        self.miners = []
        self.validators = []
        self.results = []

    async def begin(self) -> None:
        self.miners = [await self.world.node("miner") for _ in range(3)]
        self.validators = [await self.world.node("validator") for _ in range(2)]

    async def act(self) -> None:
        acts = (
            (self.place, 3),
            (self.generate, 6),
            (self.judge, 6),
            (self.cancel, 1),
            (self.wait, 2),
            (self.export, 2),
        )
        act = self.random.choices([act for act, _ in acts], [weight for _, weight in acts])[0]
        try:
            await act()
        except GatewayError as error:
            assert error.code in REFUSALS

    async def place(self) -> None:
        lines, n = self.random.randint(1, 6), self.random.randint(1, 3)
        prompts = [[1 + self.random.randrange(7), 2] for _ in range(lines)]
        await self.world.place(prompts, n=n, account_id=self.random.choice(ACCOUNTS))

    async def generate(self) -> None:
        """Take a unit: do it well, cheat, send it again later, or never answer."""
        miner = self.random.choice(self.miners)
        if self.results and self.random.random() < 0.2:
            await self.world.post(*self.random.choice(self.results))
        lease = await self.world.lease(miner)
        if lease is None or self.random.random() < 0.1:
            return
        samples = self.world.answers(lease.work)
        if self.random.random() < 0.2:
            samples[0] = [1 + self.random.randrange(90), 95]
        result = self.world.result(miner, lease, samples=samples)
        self.results.append((miner, lease, result))
        await self.world.post(miner, lease, result)

    async def judge(self) -> None:
        """Audit honestly, find nothing out, or never answer."""
        validator = self.random.choice(self.validators)
        lease = await self.world.lease_audit(validator)
        if lease is None or self.random.random() < 0.1:
            return
        votes = self.world.truth(lease)
        if self.random.random() < 0.1:
            votes = ["inconclusive"] * len(votes)
        verdicts = self.world.verdicts(validator, lease, votes)
        for _ in range(self.random.randint(1, 2)):
            await self.world.judge(validator, lease, verdicts)

    async def cancel(self) -> None:
        orders = await self.world.rows(Order)
        if orders:
            order = self.random.choice(orders)
            await life.cancel(self.world.store, order.account_id, order.id, self.world.now)

    async def wait(self) -> None:
        self.world.now += self.random.choice((MINUTE, MINUTE, HOUR, 9 * HOUR))
        await self.attend()
        self.miners[0] = await self.world.node("miner")
        for node in self.miners + self.validators:
            await self.world.announce(node)

    async def attend(self) -> None:
        """Do the gateway's background work but its exports."""
        world = self.world
        await background.reap(world.store, lambda: world.now / 1000)
        await background.end_orders(world.store, world.policy, lambda: world.now / 1000)
        await reviewing.attend(world.store, self.chain, world.policy, world.now)

    async def export(self) -> None:
        world = self.world
        world.now += MINUTE
        for order_id in await export.waiting(world.store, world.now):
            if self.random.random() < 0.3:
                gone = RepositoryError("the commit is gone")
                await note_failure(
                    world.store, order_id, None, gone, world.folder, world.policy, world.now
                )
            else:
                (order,) = await world.rows(Order, col(Order.id) == order_id)
                await run_export(world, order, self.model_folder)

    async def finish(self) -> None:
        """Let all windows pass and export what is left."""
        while any(order.status in OPEN_STATUSES for order in await self.world.rows(Order)):
            self.world.now += 25 * HOUR
            await self.attend()
            await self.export()


async def trade(world, model_folder, seed: int) -> None:
    world.policy = Policy(unit_samples=4, export_tries=2, open_orders=50, second_opinions=0.3)
    for account, usd in zip(ACCOUNTS, ("1000000", "20"), strict=True):
        if account != world.account_id:
            await world.open_account(account, usd=usd)
    market = Market(world, model_folder, seed)
    await market.begin()
    for step in range(STEPS):
        await market.act()
        if step % 5 == 0:
            await check_money(world.store)
    await market.finish()
    charged = await check_money(world.store)
    known = await balances(world.store, ACCOUNTS)
    orders = await world.rows(Order)
    verdicts = await world.rows(Verdict)
    for account in ACCOUNTS:
        balance = known[account]
        mine = [order for order in orders if order.account_id == account]
        assert balance.reserved == 0
        assert balance.charged == sum(charged[order.id] for order in mine)
        assert balance.available == balance.credited - balance.charged >= 0, usd_of(
            balance.available
        )
    # No token is charged that no verdict passed.
    for order in orders:
        passed = sum(one.tokens for one in verdicts if one.order_id == order.id)
        assert order.tokens_verified == passed
    assert len(orders) > 3 and any(charged.values())


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=SLOW) for n in range(1, 12))])
async def test_money_is_kept(sqlite_world, model_folder, seed: int):
    await trade(sqlite_world, model_folder, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
async def test_money_is_kept_on_either_database(world, model_folder, seed: int):
    await trade(world, model_folder, 1_000 + seed)
