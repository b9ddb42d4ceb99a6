"""The gateway is killed at every step of placing, settling and exporting, and started again.

Whatever was done by then, the books balance, the order ends once, its charge is the formula's, and
its files are those of a run that nobody disturbed.
"""

import asyncio
import json
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from bittensor_core import Keypair
from books import check_money
from killed import KEY, PROMPTS, Scene, cancel, end_orders, export_order, kill_at, steps_of
from sqlalchemy.engine import make_url
from stored_objects import keys_of
from world import NOW, World

from gateway.ledger.balance import balances
from gateway.ledger.money import usd_of
from gateway.orders import life
from gateway.orders.policy import HOUR
from gateway.store import unnamed
from gateway.store.tables import Order, Transfer

AWHILE = HOUR
SLOW = pytest.mark.slow


@dataclass(frozen=True)
class Outcome:
    """What is left to see of an order: state, money and the bytes of its files."""

    status: str
    charged: int
    available: int
    files: dict[str, bytes]


class Copies:
    """A scene and copies of it, on either database."""

    def __init__(self, scene: Scene, server: str | None) -> None:
        self.scene = scene
        self._server = server
        self._made = 0

    def new(self) -> Scene:
        """Copy the scene as it was."""
        self._made += 1
        folder = self.scene.folder.with_name(f"copy-{self._made}")
        shutil.copytree(self.scene.folder, folder)
        database = f"sqlite:///{folder}/gateway.db"
        if self._server is not None:
            name = f"copy_{self._made}"
            with psycopg.connect(self._server, autocommit=True) as connection:
                connection.execute(f"DROP DATABASE IF EXISTS {name}")
                connection.execute(f"CREATE DATABASE {name} TEMPLATE scene")
            database = _of(self._server, name)
        return replace(self.scene, folder=folder, database=database)


def _of(server: str, name: str) -> str:
    return make_url(server).set(database=name).render_as_string(hide_password=False)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def server(request: pytest.FixtureRequest) -> Iterator[str | None]:
    """The server of the databases; None for SQLite."""
    if request.param == "sqlite":
        yield None
        return
    uri = request.getfixturevalue("postgres")
    with psycopg.connect(uri, autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS scene")
        connection.execute("CREATE DATABASE scene")
    yield uri


@pytest.fixture
def prepare(server: str | None, tmp_path: Path, model_folder: Path) -> Callable[..., Copies]:
    """Make the scene of a piece of work: ``prepare(before)``, an async function of the world."""

    async def make(scene: Scene, before: Any) -> Scene:
        world = await scene.open()
        await world.open_account()
        order_id = await before(world)
        await world.readers.close()
        await world.store.close()
        return replace(scene, order_id=order_id, now=world.now)

    def call(before: Any) -> Copies:
        folder = tmp_path / "scene"
        folder.mkdir()
        database = f"sqlite:///{folder}/gateway.db" if server is None else _of(server, "scene")
        scene = Scene(folder, database, model_folder, Keypair.generate_mnemonic(), "", NOW)
        return Copies(asyncio.run(make(scene, before)), server)

    return call


async def recovered(scene: Scene, work: str) -> Outcome:
    """Start again after a while, do what is left to be done, and look."""
    world = await scene.open()
    try:
        # As found, before anything is mended.
        await check_money(world.store)
        if work == "cancel" and (await world.order_of(scene.order_id)).status == "validating":
            # The customer got no answer and asks again.
            await cancel(world, scene)
        world.now += AWHILE
        await end_orders(world, scene)
        await export_order(world, scene)
        return await _outcome(world, scene)
    finally:
        await world.readers.close()
        await world.store.close()


async def _outcome(world: World, scene: Scene) -> Outcome:
    charged = await check_money(world.store)
    order = await world.order_of(scene.order_id)
    left = (await balances(world.store, [world.account_id]))[world.account_id]
    folder = scene.folder / "objects" / "orders" / order.id
    files = {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    if "manifest.json" in files:
        # The signature has randomness of its own.
        statement = json.loads(files["manifest.json"])["statement"]
        files["manifest.json"] = json.dumps(statement).encode()
    if "report.json" in files:
        money = json.loads(files["report.json"])["money"]
        assert money["charged_usd"] == usd_of(charged[order.id])
    return Outcome(order.status, charged[order.id], left.available, files)


def examine(copies: Copies, work: str, status: str, kinds: set[str]) -> Outcome:
    """Kill the work at each of its steps and compare what comes of it with an undisturbed run.

    Args:
        status: how the order ends.
        kinds: of steps that there are at least.
    """
    undisturbed = copies.new()
    steps = steps_of(undisturbed, work)
    expected = asyncio.run(recovered(undisturbed, work))
    assert expected.status == status
    assert kinds <= {step.split()[0] for step in steps}
    for number, name in enumerate(steps):
        scene = copies.new()
        kill_at(scene, work, number)
        assert asyncio.run(recovered(scene, work)) == expected, f"killed at {number}: {name}"
        shutil.rmtree(scene.folder)
    return expected


async def generated(world: World) -> str:
    """Order, and have one sample of each unit verified later than the others."""
    order = await world.place(PROMPTS, n=2, refused=1)
    miner, validator = await world.node("miner"), await world.node("validator")
    while await world.generate(miner):
        lease = await world.lease_audit(validator)
        assert lease is not None
        votes = ["void", *["verified"] * (len(lease.work.samples) - 1)]
        await world.judge(validator, lease, world.verdicts(validator, lease, votes))
        if (await world.order(order)).samples_void >= 2:
            break
    await world.finish(await world.node("miner"), validator)
    return order.id


async def completed(world: World) -> str:
    order_id = await generated(world)
    assert (await world.order_of(order_id)).status == "finalizing"
    return order_id


async def cancelling(world: World) -> str:
    order = await world.place(PROMPTS, n=2)
    await world.generate(await world.node("miner"))
    await world.audit(await world.node("validator"))
    await life.cancel(world.store, world.account_id, order.id, world.now)
    world.now += world.policy.cancel_grace_ms
    return order.id


async def running_out(world: World) -> str:
    order = await world.place(PROMPTS, n=2)
    await world.generate(await world.node("miner"))
    await world.audit(await world.node("validator"))
    world.now = order.expires_at_ms
    return order.id


async def waiting(world: World) -> str:
    return (await world.place(PROMPTS)).id


async def waiting_in_vain(world: World) -> str:
    order = await world.place(PROMPTS)
    world.now = order.expires_at_ms
    return order.id


SETTLED = {"INSERT", "UPDATE", "SELECT", "COMMIT"}
# Money is settled by the export.
STOPPED = {"UPDATE", "COMMIT"}


@pytest.mark.parametrize(
    ("output_format", "files"),
    [
        (None, {"output.jsonl", "errors.jsonl", "receipts.jsonl", "manifest.json"}),
        pytest.param("parquet", {"part-00000.parquet", "report.json"}, marks=SLOW),
        pytest.param("openai_jsonl", {"output-00000.jsonl", "report.json"}, marks=SLOW),
    ],
)
def test_export_of_a_completed_order(
    prepare: Callable[..., Copies], output_format: str | None, files: set[str]
):
    async def before(world: World) -> str:
        order_id = await completed(world)
        async with world.store.write() as session:
            order = await session.get_one(Order, order_id)
            order.output_format = output_format
            session.add(order)
        return order_id

    expected = examine(prepare(before), "export", "completed", {*SETTLED, "put"})
    assert files <= expected.files.keys()


@pytest.mark.parametrize(
    ("before", "work", "status", "kinds"),
    [
        pytest.param(waiting, "cancel", "cancelled", STOPPED, id="cancel-unstarted"),
        pytest.param(waiting_in_vain, "end", "expired", STOPPED, id="expire-unstarted", marks=SLOW),
        pytest.param(cancelling, "end", "cancelled", STOPPED, id="stop-cancelled", marks=SLOW),
        pytest.param(running_out, "end", "expired", STOPPED, id="expire-running", marks=SLOW),
    ],
)
def test_ends(prepare: Callable[..., Copies], before: Any, work: str, status: str, kinds: set[str]):
    examine(prepare(before), work, status, kinds)


def test_placing(prepare: Callable[..., Copies]):
    """An order and its hold are there both or neither, and the repeat finds or makes them.

    Of what was stored for a try that was killed nothing stays.
    """

    async def nothing(_: World) -> str:
        return ""

    copies = prepare(nothing)
    steps = steps_of(copies.new(), "place")
    assert {*SETTLED, "put"} <= {step.split()[0] for step in steps}
    found = {asyncio.run(_placed_after(copies, number)) for number in range(len(steps))}
    # The last step is the commit itself, before which nothing shows.
    assert found == {0}


async def _placed_after(copies: Copies, number: int) -> int:
    scene = copies.new()
    await asyncio.to_thread(kill_at, scene, "place", number)
    world = await scene.open()
    await check_money(world.store)
    orders = len(await world.rows(Order))
    stored, now_ms = await keys_of(world.store.objects), int(time.time() * 1000)
    assert await unnamed.sweep(world.store, now_ms) == 0
    assert await keys_of(world.store.objects) == stored
    await unnamed.sweep(world.store, now_ms + unnamed.UNNAMED_MS)
    assert await keys_of(world.store.objects) == set()
    assert len(await world.rows(Transfer, Transfer.kind == "hold")) == orders
    placed = await world.place(PROMPTS, key=KEY)
    assert [order.id for order in await world.rows(Order)] == [placed.id]
    assert await unnamed.sweep(world.store, now_ms + 2 * unnamed.UNNAMED_MS) == 0
    await check_money(world.store)
    await world.readers.close()
    await world.store.close()
    shutil.rmtree(scene.folder)
    return orders
