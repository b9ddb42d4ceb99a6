"""Requests for work that wait at the gateway: who is woken, how many, and how a wait ends."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from live_gateway import LiveGateway, live_gateway
from made_quotes import made_quote
from sqlmodel import select
from world import INPUT_FILE, LOADED, STACK

from gateway.errors import GatewayError
from gateway.orders import waiting
from gateway.orders.placing import Placement, place
from gateway.orders.policy import Policy
from gateway.orders.waiting import PLACES_OF_A_HOTKEY, WOKEN_AT_ONCE, WaitingRoom, Want
from gateway.store.tables import Account, Dialect, File, FilePurpose
from protocol.client import NodeClient
from protocol.keys import load_or_create_hotkey
from protocol.messages import Announcement, LeaseRequest, LoadedModel

WANT = Want("miner", "org/model", "ab" * 20)


class Crowd:
    """Nodes that wait in a room; what they try for is a number of units."""

    def __init__(self, room: WaitingRoom) -> None:
        self.room = room
        self.units = 0
        self.unable: set[int] = set()
        self.refused: set[int] = set()
        self.tries: list[int] = []
        self.got: list[int] = []

    async def wait(self, number: int, seconds: float, want: Want = WANT) -> bool:
        with self.room.place(want, f"node {number}") as place:
            assert place is not None

            async def attempt() -> bool | None:
                self.tries.append(number)
                await asyncio.sleep(0)
                if number in self.refused:
                    raise GatewayError(403, "miner_convicted", "No further work.")
                if not self.units or number in self.unable:
                    return None
                self.units -= 1
                self.got.append(number)
                return True

            return await self.room.served(place, seconds, attempt) is True


@pytest.fixture
async def crowd(sqlite_store, monkeypatch) -> AsyncIterator[tuple[Crowd, list[int]]]:
    """A room over rows that are told by the test: the last amount of them."""
    amounts = [0]

    async def told(_session, wants, _policy) -> dict[Want, int]:
        return {want: amounts[-1] if want == WANT else 0 for want in wants}

    monkeypatch.setattr(waiting, "_amounts", told)
    yield Crowd(WaitingRoom(sqlite_store, Policy())), amounts


async def test_two_hundred_nodes_do_not_run_for_one_unit(crowd):
    nodes, amounts = crowd
    tasks = [asyncio.create_task(nodes.wait(number, 5)) for number in range(200)]
    await asyncio.sleep(0)
    await nodes.room.look()
    await asyncio.sleep(0.01)
    assert nodes.tries == []
    nodes.units, amounts[:] = 1, [1]
    await nodes.room.look()
    await asyncio.sleep(0.01)
    # The one that has waited longest was woken, and nobody in vain.
    assert nodes.got == nodes.tries == [0]
    # Nothing is left, nobody is woken.
    amounts[:] = [0]
    await nodes.room.look()
    await asyncio.sleep(0.01)
    assert nodes.tries == [0]
    nodes.units, amounts[:] = 50, [50]
    await nodes.room.look()
    await asyncio.sleep(0.05)
    assert nodes.got == nodes.tries == list(range(51))
    nodes.room.close()
    assert sum(await asyncio.gather(*tasks)) == 51
    assert len(nodes.room) == 0


async def test_what_one_may_not_take_is_passed_on(crowd):
    nodes, amounts = crowd
    tasks = [asyncio.create_task(nodes.wait(number, 5)) for number in range(20)]
    await asyncio.sleep(0)
    nodes.units, amounts[:] = 1, [1]
    nodes.unable = {0, 1, 2}
    await nodes.room.look()
    await asyncio.sleep(0.01)
    assert nodes.tries == [0, 1, 2, 3] and nodes.got == [3]
    # So many may try in vain, and stand behind the others then.
    nodes.units, nodes.unable = 1, set(range(20))
    await nodes.room.look()
    await asyncio.sleep(0.01)
    assert nodes.tries == [0, 1, 2, 3, 4, 5, 6, 7]
    await nodes.room.look()
    await asyncio.sleep(0.01)
    assert len(nodes.tries) == 4 + WOKEN_AT_ONCE
    nodes.room.close()
    assert sum(await asyncio.gather(*tasks)) == 1


async def test_what_one_is_refused_is_passed_on(crowd):
    nodes, amounts = crowd
    tasks = [asyncio.create_task(nodes.wait(number, 5)) for number in range(3)]
    await asyncio.sleep(0)
    nodes.units, amounts[:] = 1, [1]
    nodes.refused = {0}
    await nodes.room.look()
    await asyncio.sleep(0.01)
    assert nodes.tries == [0, 1] and nodes.got == [1]
    nodes.room.close()
    refusal, *rest = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(refusal, GatewayError)
    assert rest == [True, False]
    assert len(nodes.room) == 0


async def test_only_those_whose_model_has_work_are_woken(crowd):
    nodes, amounts = crowd
    other = asyncio.create_task(nodes.wait(1, 0.2, WANT._replace(role="validator")))
    mine = asyncio.create_task(nodes.wait(2, 5))
    await asyncio.sleep(0)
    nodes.units, amounts[:] = 2, [2]
    await nodes.room.look()
    assert await mine
    assert not await other
    assert nodes.tries == [2]


async def test_a_turn_that_came_too_late_is_the_next_ones(crowd):
    nodes, amounts = crowd
    with nodes.room.place(WANT, "gone") as place:
        assert place is not None
        rest = asyncio.create_task(nodes.wait(2, 5))
        await asyncio.sleep(0)
        nodes.units, amounts[:] = 1, [1]
        await nodes.room.look()
        await asyncio.sleep(0.01)
        assert place.is_woken and nodes.tries == []
    assert await rest


async def test_places_are_bounded(sqlite_store, monkeypatch):
    monkeypatch.setattr(waiting, "PLACES", 3)
    room = WaitingRoom(sqlite_store, Policy())
    with room.place(WANT, "a") as first, room.place(WANT, "a") as second:
        assert first is not None and second is not None and PLACES_OF_A_HOTKEY == 2
        with room.place(WANT, "a") as third, room.place(WANT, "b") as other:
            assert third is None and other is not None
            with room.place(WANT, "c") as late:
                assert late is None
    with room.place(WANT, "a") as again:
        assert again is not None
    room.close()
    with room.place(WANT, "a") as closed:
        assert closed is None


MINER = Announcement(role="miner", stack=STACK, architectures=["Qwen3ForCausalLM"], loaded=LOADED)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveGateway]:
    with live_gateway(tmp_path_factory.mktemp("gateway")) as running:
        yield running


@asynccontextmanager
async def miner(gateway: LiveGateway, folder: Path) -> AsyncIterator[NodeClient]:
    key = load_or_create_hotkey(folder / "miner")
    gateway.register(key.ss58_address)
    async with NodeClient(gateway.origin, key, attempts=1) as client:
        await client.announce(MINER)
        yield client


async def placed(gateway: LiveGateway, folder: Path) -> None:
    """Place an order as the routes do; runs in the gateway's loop."""
    store, now_ms = gateway.state.store, gateway.state.now_ms()
    async with store.write() as session:
        account = (await session.exec(select(Account))).first()
        assert account is not None
        file = File(
            id=INPUT_FILE,
            account_id=account.id,
            filename="in.jsonl",
            bytes=5,
            sha256="cd" * 32,
            purpose=FilePurpose.BATCH,
            object_key="files/x",
            created_at_ms=now_ms,
        )
        session.add(file)
    placement = Placement(
        input_file_id=INPUT_FILE,
        dialect=Dialect.OPENAI,
        completion_window_hours=24,
        metadata=None,
        idempotency_key=None,
        body_sha256="00",
        drawn_seed=1,
    )
    quote = made_quote(folder, now_ms, [[1, 2]])
    await place(store, account.id, quote, placement, gateway.state.settings.policy, now_ms)


async def until(holds) -> None:
    for _ in range(2_000):
        if holds():
            return
        await asyncio.sleep(0.01)
    raise TimeoutError


async def test_an_order_is_taken_by_who_waits_for_it(gateway, tmp_path):
    waiters = gateway.state.waiting
    async with miner(gateway, tmp_path) as client:
        request = LeaseRequest(role="miner", loaded=LOADED, wait_seconds=20)
        asking = asyncio.create_task(client.lease_generation(request))
        await until(lambda: len(waiters) == 1)
        gateway.run(placed(gateway, tmp_path))
        lease = await asking
        assert lease is not None and len(waiters) == 0
        await client.release(lease.lease_id)


async def test_who_goes_away_gives_its_place_up(gateway, tmp_path):
    waiters = gateway.state.waiting
    other = LoadedModel(model="org/model", revision="cd" * 20)
    async with miner(gateway, tmp_path) as client:
        await client.announce(MINER.model_copy(update={"loaded": other}))
        request = LeaseRequest(role="miner", loaded=other, wait_seconds=20)
        asking = asyncio.create_task(client.lease_generation(request))
        await until(lambda: len(waiters) == 1)
        asking.cancel()
        await until(lambda: len(waiters) == 0)
        short = request.model_copy(update={"wait_seconds": 0.05})
        assert await client.lease_generation(short) is None


async def test_a_gateway_that_stops_sends_everybody_away(tmp_path):
    with live_gateway(tmp_path / "gateway") as running:
        async with miner(running, tmp_path) as client:
            request = LeaseRequest(role="miner", loaded=LOADED, wait_seconds=30)
            asking = asyncio.create_task(client.lease_generation(request))
            await until(lambda: len(running.state.waiting) == 1)
            running.loop.call_soon_threadsafe(running.state.waiting.close)
            async with asyncio.timeout(10):
                assert await asking is None


async def test_a_node_without_a_model_waits_at_the_empty_board(tmp_path):
    with live_gateway(tmp_path / "gateway") as running:
        async with miner(running, tmp_path) as client:
            assert (await client.demand(0.05)).demands == []
            asking = asyncio.create_task(client.demand(20))
            await until(lambda: len(running.state.waiting) == 1)
            running.run(placed(running, tmp_path))
            async with asyncio.timeout(5):
                board = await asking
            assert [demand.commit for demand in board.demands] == [LOADED]
            assert len(running.state.waiting) == 0
            # Where there is work already, nobody waits.
            assert await client.demand(20) == board


async def test_a_gateway_that_stops_sends_those_at_the_board_away(tmp_path):
    with live_gateway(tmp_path / "gateway") as running:
        async with miner(running, tmp_path) as client:
            asking = asyncio.create_task(client.demand(30))
            await until(lambda: len(running.state.waiting) == 1)
            running.loop.call_soon_threadsafe(running.state.waiting.close)
            async with asyncio.timeout(10):
                assert (await asking).demands == []
