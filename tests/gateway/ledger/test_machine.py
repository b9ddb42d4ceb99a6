"""Whatever customers, nodes and the operator do, twice and at once: the books balance."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from books import check_money
from databases import emptied, fresh_sqlite
from exports import run_export
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from world import World

from gateway.accounts import credit_account, debit_account
from gateway.errors import GatewayError
from gateway.ledger.balance import Balance, balances
from gateway.ledger.charges import bills, price_of
from gateway.ledger.money import NANO
from gateway.ledger.transfers import LedgerError, capture, hold, void
from gateway.orders import background, export, life
from gateway.orders.failing import note_failure
from gateway.orders.policy import HOUR, Policy
from gateway.orders.settling import settle_money
from gateway.store.engine import Store
from gateway.store.objects import open_objects
from gateway.store.tables import OPEN_STATUSES, Order
from protocol.repository import RepositoryError

ACCOUNTS = ("account", "other")
CAUSES = tuple("abcdef")
# A small order of the world's model costs a little over one USD.
AMOUNTS = (1, 10**7, NANO, 2 * NANO, 5 * NANO)

accounts = st.sampled_from(ACCOUNTS)
times = st.integers(1, 3)


class Money(RuleBasedStateMachine):
    """A world with two customers who start with nothing, and a model of what they have."""

    database = ""
    model_folder = Path()

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.scratch = TemporaryDirectory()
        self.paid: dict[str, tuple[str, int]] = {}
        self.taken: dict[str, tuple[str, int]] = {}
        self.orders: list[Order] = []

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.runner.run(work)

    @initialize()
    def begin(self) -> None:
        self.run(self._begin())

    async def _begin(self) -> None:
        folder = Path(self.scratch.name)
        url = emptied(self.database) if self.database else fresh_sqlite(folder / "gateway.db")
        store = await Store.open(url, open_objects(f"file://{folder}/objects"))
        self.world = World(store, folder, Policy(unit_samples=2, export_tries=2, open_orders=50))
        for account in ACCOUNTS:
            await self.world.open_account(account, usd=None)
        self.miner = await self.world.node("miner")
        self.validator = await self.world.node("validator")

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.run(self.world.readers.close())
            self.run(self.world.store.close())
        self.runner.close()
        self.scratch.cleanup()

    @rule(account=accounts, cause=st.sampled_from(CAUSES), amount=st.sampled_from(AMOUNTS), n=times)
    def top_up(self, account: str, cause: str, amount: int, n: int) -> None:
        world = self.world
        same = [credit_account(world.store, account, amount, cause, world.now) for _ in range(n)]
        answers = self.run(settled(same))
        if self.paid.setdefault(cause, (account, amount)) == (account, amount):
            assert len({answer.id for answer in answers}) == 1
        else:
            assert all(isinstance(answer, LedgerError) for answer in answers)

    @rule(account=accounts, cause=st.sampled_from(CAUSES), amount=st.sampled_from(AMOUNTS), n=times)
    def withdraw(self, account: str, cause: str, amount: int, n: int) -> None:
        """Money is taken back once a cause, and never what is held or charged."""
        world, available = self.world, self.expected(account).available
        same = [debit_account(world.store, account, amount, cause, world.now) for _ in range(n)]
        answers = self.run(settled(same))
        if cause not in self.taken and amount <= available:
            self.taken[cause] = (account, amount)
        if self.taken.get(cause) == (account, amount):
            assert len({answer.id for answer in answers}) == 1
        else:
            assert all(isinstance(answer, LedgerError) for answer in answers)

    @rule(account=accounts, lines=st.integers(1, 3), n=st.integers(1, 2), twins=times)
    def place(self, account: str, lines: int, n: int, twins: int) -> None:
        key = f"key {len(self.orders)} of {account}"
        prompts = [[1 + at, 2] for at in range(lines)]
        wanted = self.world.quote(prompts, n=n).price.reserved
        before = self.expected(account)
        places = [self.world.place(prompts, n=n, key=key, account_id=account) for _ in range(twins)]
        answers = self.run(settled(places))
        if wanted > before.available:
            codes = {answer.code for answer in answers if isinstance(answer, GatewayError)}
            assert codes == {"insufficient_balance"}
            return
        assert len({answer.id for answer in answers}) == 1
        self.orders.append(answers[0])

    @rule(vote=st.sampled_from(("verified", "verified", "void", "inconclusive")))
    def work(self, vote: Any) -> None:
        self.run(self._work(vote))

    async def _work(self, vote: Any) -> None:
        await self.world.announce(self.miner)
        await self.world.announce(self.validator)
        try:
            await self.world.generate(self.miner)
        except GatewayError as error:
            # It delivered too much that was void; another takes its place.
            assert error.code == "miner_suspended"
            self.miner = await self.world.node("miner")
        await self.world.audit(self.validator, vote)

    @precondition(lambda self: self.orders)
    @rule(data=st.data(), n=times)
    def cancel(self, data: st.DataObject, n: int) -> None:
        order = data.draw(st.sampled_from(self.orders))
        world = self.world
        acts = [life.cancel(world.store, order.account_id, order.id, world.now) for _ in range(n)]
        for answer in self.run(settled(acts)):
            assert isinstance(answer, Order) or answer.code == "batch_not_cancellable"

    @rule(hours=st.sampled_from((0, 1, 25)))
    def wait(self, hours: int) -> None:
        world = self.world
        world.now += hours * HOUR
        for act in (
            background.reap(world.store, lambda: world.now / 1000),
            background.end_orders(world.store, world.policy, lambda: world.now / 1000),
        ):
            self.run(act)

    @rule(n=times, fails=st.booleans())
    def export(self, n: int, fails: bool) -> None:
        self.run(self._export(n, fails))

    async def _export(self, n: int, fails: bool) -> None:
        world = self.world
        world.now += HOUR
        for order_id in await export.waiting(world.store, world.now):
            order = next(one for one in self.orders if one.id == order_id)
            if fails:
                gone = RepositoryError("the commit is gone")
                await note_failure(
                    world.store, order_id, None, gone, world.folder, world.policy, world.now
                )
            else:
                await settled([run_export(world, order, self.model_folder) for _ in range(n)])

    @precondition(lambda self: self.orders)
    @rule(data=st.data(), account=accounts)
    def rush(self, data: st.DataObject, account: str) -> None:
        """Everything at once."""
        world, payment = self.world, f"rush-{len(self.paid)}"
        order = data.draw(st.sampled_from(self.orders))
        paid, taken, placed, *rest = self.run(
            settled(
                [
                    credit_account(world.store, account, NANO, payment, world.now),
                    debit_account(world.store, account, NANO // 2, payment, world.now),
                    world.place([[1, 2]], account_id=account),
                    life.cancel(world.store, order.account_id, order.id, world.now),
                    background.end_orders(world.store, world.policy, lambda: world.now / 1000),
                    run_export(world, order, self.model_folder),
                ]
            )
        )
        self.paid[payment] = (account, NANO)
        assert paid.amount_nano == NANO
        if not isinstance(taken, LedgerError):
            self.taken[payment] = (account, NANO // 2)
        if isinstance(placed, Order):
            self.orders.append(placed)
        codes = {one.code for one in (placed, *rest) if isinstance(one, GatewayError)}
        assert codes <= {"insufficient_balance", "batch_not_cancellable"}

    @precondition(lambda self: self.orders)
    @rule(data=st.data(), n=times)
    def settle_again(self, data: st.DataObject, n: int) -> None:
        """An end that comes again changes nothing, and another end is refused."""
        order = self.run(self.world.order(data.draw(st.sampled_from(self.orders))))
        if order.status in OPEN_STATUSES:
            return
        bill = self.run(bills(self.world.store, [order]))[order.id]
        self.run(settled([self._write(settle_money, order.id) for _ in range(n)]))
        other = void if bill.charged else capture
        amounts = () if bill.charged else (1,)
        for act in (
            self._write(other, order.id, *amounts),
            self._write(capture, order.id, bill.charged + 1),
            self._write(hold_again, order.account_id, order.id, bill.price + 1),
        ):
            (answer,) = self.run(settled([act]))
            assert isinstance(answer, LedgerError)

    async def _write(self, act: Any, *arguments: Any) -> Any:
        async with self.world.store.write() as session:
            return await act(session, *arguments, self.world.now)

    def expected(self, account: str) -> Balance:
        """Return what a customer must have, by the operations so far."""
        mine = [
            self.run(self.world.order(order))
            for order in self.orders
            if order.account_id == account
        ]
        known = self.run(bills(self.world.store, mine))
        paid, taken = (
            sum(amount for owner, amount in moved.values() if owner == account)
            for moved in (self.paid, self.taken)
        )
        credited = paid - taken
        reserved = sum(price_of(order).reserved for order in mine if order.status in OPEN_STATUSES)
        charged = sum(
            known[order.id].charged for order in mine if order.status not in OPEN_STATUSES
        )
        return Balance(credited - reserved - charged, reserved, charged, credited)

    @invariant()
    def the_books_balance(self) -> None:
        self.run(check_money(self.world.store))

    @invariant()
    def every_customer_has_what_is_left(self) -> None:
        known = self.run(balances(self.world.store, ACCOUNTS))
        for account in ACCOUNTS:
            assert known[account] == self.expected(account)
            assert known[account].available >= 0


async def hold_again(session: Any, account_id: str, order_id: str, amount: int, now: int) -> None:
    await hold(session, account_id, order_id, amount, now)


async def settled(acts: list[Coroutine[Any, Any, Any]]) -> list[Any]:
    """Run acts at once and return what each answered or raised, which is told apart by its type."""
    answers = await asyncio.gather(*acts, return_exceptions=True)
    for answer in answers:
        expected = (GatewayError, LedgerError, export.ExportLost)
        if isinstance(answer, BaseException) and not isinstance(answer, expected):
            raise answer
    return answers


def examine(database: str, model_folder: Path, examples: int, steps: int) -> None:
    kind = type("Money", (Money,), {"database": database, "model_folder": model_folder})
    # A failure is shown as it was found: shrinking takes minutes.
    given = settings(
        max_examples=examples,
        stateful_step_count=steps,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(kind, settings=given)


def test_the_books_balance(model_folder: Path):
    examine("", model_folder, 5, 20)


@pytest.mark.slow
def test_the_books_balance_for_long(model_folder: Path):
    examine("", model_folder, 60, 40)


@pytest.mark.slow
def test_the_books_balance_over_postgresql(postgres: str, model_folder: Path):
    examine(postgres, model_folder, 15, 30)
