"""The miner's node against a fake gateway (``fake_gateway.py``): signatures and hub are real."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import stamina
from aiohttp import web
from aiohttp.test_utils import TestServer
from bittensor_core import Keypair
from fake_gateway import FakeGateway
from structlog.testing import capture_logs

from miner import node as node_module
from miner.node import MinerNode
from miner.settings import MinerSettings
from protocol.client import NodeClient
from protocol.documents import result_root, statement_of_result, work_keys
from protocol.keys import load_or_create_hotkey, verify_statement
from protocol.messages import Work
from scripts.hub import HubServer, publish

MODEL = "reliquary/tiny-qwen3"
RUN = (
    "from miner.node import run_miner; from miner.settings import MinerSettings; "
    "run_miner(MinerSettings())"
)


@pytest.fixture(scope="module")
def hub(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Serve the tiny model by the local hub; return its address and the commit."""
    folder = tmp_path_factory.mktemp("hub")
    commit = publish(folder, MODEL, tiny_folder)
    with HubServer(folder) as server:
        yield server.url, commit


@pytest.fixture
def environment(
    hub: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    monkeypatch.setenv("HF_ENDPOINT", hub[0])
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1] / "support"))
    monkeypatch.setenv("CRASH_MARK", str(tmp_path / "crashed"))
    for pause in ("AWAY_SECONDS", "TURNED_AWAY_SECONDS", "PASSING_SECONDS"):
        monkeypatch.setattr(node_module, pause, 0.2)
    # One try a call: the node's own patience is what is tested.
    stamina.set_testing(True, attempts=1)
    yield
    stamina.set_testing(False)


@pytest.fixture
async def gateway(environment: None, tmp_path: Path) -> AsyncIterator[tuple[FakeGateway, str]]:
    fake = FakeGateway(load_or_create_hotkey(tmp_path / "gateway"))
    async with TestServer(fake.app()) as server:
        yield fake, str(server.make_url("")).rstrip("/")


@pytest.fixture
def miner(tmp_path: Path) -> Keypair:
    return load_or_create_hotkey(tmp_path / "miner")


@pytest.fixture
def unit(hub: tuple[str, str], make_work, chat_prompts) -> Callable[..., Work]:
    """Return a maker of units on the commit that the hub serves."""

    def make(number: int = 1, max_tokens: int = 5, samples: int = 4) -> Work:
        work = make_work(chat_prompts, samples, max_tokens=max_tokens)
        changed = {"unit_id": f"00000000-0000-7000-8000-{number:012}", "revision": hub[1]}
        return work.model_copy(update=changed)

    return make


def settings(url: str, tmp_path: Path, factory: str | None) -> MinerSettings:
    return MinerSettings(
        gateway=url,
        hotkey=tmp_path / "miner",
        engine="transformers",
        engine_factory=factory,
        models=tmp_path / "models",
        dtype="float32",
        threads=1,
        poll_seconds=0.1,
        stop_seconds=0.5,
    )


@asynccontextmanager
async def running(
    url: str,
    miner: Keypair,
    tmp_path: Path,
    factory: str | None = "scripted_engines:Counting",
    **options: float,
) -> AsyncIterator[MinerNode]:
    """Run a node beside the block and stop it after."""
    async with NodeClient(url, miner) as client:
        chosen = settings(url, tmp_path, factory).model_copy(update=options)
        node = MinerNode(chosen, client, miner)
        working = asyncio.create_task(node.run())
        try:
            yield node
        finally:
            node.stop()
            await asyncio.wait_for(working, 30)


async def test_a_leased_unit_comes_back_drawn_and_signed(gateway, miner, unit, tmp_path):
    fake, url = gateway
    work = unit(max_tokens=24)
    fake.units = [work]
    async with running(url, miner, tmp_path, factory=None):
        await fake.until(lambda: bool(fake.results))
        await fake.until(lambda: fake.announcements[-1].loaded is not None)
    (result,) = fake.results
    assert (result.unit_id, result.attempt) == (work.unit_id, 1)
    assert result.root == result_root(work_keys(work), result.samples)
    assert verify_statement(miner.ss58_address, statement_of_result(result), result.signature)
    assert result.stack.engine == "transformers"
    for ids in result.samples:
        assert ids[-1] in work.end_ids or len(ids) == 24
    assert fake.announcements[0].loaded is None
    assert fake.announcements[-1].stack == result.stack
    assert fake.released == []


async def test_heartbeats_tell_progress_and_obey_a_stop(gateway, miner, unit, tmp_path):
    fake, url = gateway
    fake.units = [unit(1, max_tokens=3_000)]
    async with running(url, miner, tmp_path):
        await fake.until(lambda: any(tokens > 0 for tokens in fake.heartbeats))
        fake.units = [unit(2)]
        fake.stopped = set(fake.leased)
        await fake.until(lambda: bool(fake.results))
    assert [result.unit_id for result in fake.results] == [unit(2).unit_id]
    assert fake.released == []


async def test_a_lease_that_is_gone_stops_the_unit(gateway, miner, unit, tmp_path):
    fake, url = gateway
    fake.units = [unit(1, max_tokens=3_000)]
    gone = {"error": {"message": "This lease is over.", "code": "lease_over"}}

    def refuse(path: str) -> web.Response | None:
        over = path.endswith("heartbeat") and len(fake.leased) == 1
        return web.json_response(gone, status=409) if over else None

    fake.refuse = refuse
    async with running(url, miner, tmp_path):
        await fake.until(lambda: len(fake.leased) == 1)
        fake.units = [unit(2)]
        await fake.until(lambda: bool(fake.results))
    assert [result.unit_id for result in fake.results] == [unit(2).unit_id]


async def test_a_result_outlives_a_gateway_that_is_away(gateway, miner, unit, tmp_path):
    fake, url = gateway
    fake.units = [unit(1), unit(2)]
    turned_away: list[str] = []

    def refuse(path: str) -> web.Response | None:
        if len(fake.leased) == 1 and len(turned_away) < 4:
            turned_away.append(path)
            return web.Response(status=503)
        return None

    fake.refuse = refuse
    async with running(url, miner, tmp_path):
        await fake.until(lambda: len(fake.results) == 2)
    assert any(path.endswith("result") for path in turned_away)
    assert [result.unit_id for result in fake.results] == [unit(1).unit_id, unit(2).unit_id]


async def test_a_crashed_engine_gives_its_lease_back_and_is_restarted(
    gateway, miner, unit, tmp_path
):
    fake, url = gateway
    fake.units = [unit()]
    with capture_logs() as logs:
        async with running(url, miner, tmp_path, "scripted_engines:CrashingOnce"):
            await fake.until(lambda: bool(fake.results))
    assert len(fake.released) == 1
    assert list(fake.leased.values()) == [unit(), unit()]
    crash = next(entry for entry in logs if entry["event"] == "engine crashed")
    assert "status 3" in crash["reason"]


async def test_a_gateway_that_forgot_the_miner_hears_of_it_again(gateway, miner, unit, tmp_path):
    fake, url = gateway
    fake.units = [unit(1)]
    async with running(url, miner, tmp_path):
        await fake.until(lambda: bool(fake.results))
        known = len(fake.announcements)
        unknown = {"error": {"message": "Announce first.", "code": "not_announced"}}

        def refuse(path: str) -> web.Response | None:
            forgotten = path == "leases" and len(fake.announcements) == known
            return web.json_response(unknown, status=403) if forgotten else None

        fake.refuse = refuse
        fake.units = [unit(2)]
        await fake.until(lambda: len(fake.results) == 2)
    assert len(fake.announcements) > known


async def test_a_suspended_miner_says_so_once_and_waits(gateway, miner, unit, tmp_path):
    fake, url = gateway
    fake.units = [unit()]
    asked: list[str] = []
    suspended = {"error": {"message": "Too many void samples.", "code": "miner_suspended"}}

    def refuse(path: str) -> web.Response | None:
        if path != "leases":
            return None
        asked.append(path)
        return web.json_response(suspended, status=403)

    fake.refuse = refuse
    with capture_logs() as logs:
        async with running(url, miner, tmp_path):
            await fake.until(lambda: len(asked) == 3)
    assert [entry["code"] for entry in logs if entry["event"] == "turned away"] == [
        "miner_suspended"
    ]


async def test_a_miner_suspended_for_one_model_turns_to_another(gateway, miner, unit, tmp_path):
    fake, url = gateway
    missing = unit(2).model_copy(update={"revision": "b" * 40})
    fake.units = [unit()]
    suspended = {"error": {"message": "Too many void samples.", "code": "miner_suspended"}}

    def refuse(path: str) -> web.Response | None:
        return web.json_response(suspended, status=403) if path == "leases" else None

    fake.refuse = refuse
    with capture_logs() as logs:
        async with running(url, miner, tmp_path, switch_seconds=0.0):
            await fake.until(lambda: any(one.loaded for one in fake.announcements))
            fake.units = [missing]
            # It says what it holds after each try to load.
            await fake.until(
                lambda: any("has no revision" in one.get("reason", "") for one in logs)
            )


async def test_a_model_that_is_not_on_the_hub_is_avoided(gateway, miner, unit, tmp_path):
    fake, url = gateway
    missing = unit(1).model_copy(update={"revision": "b" * 40})
    fake.units = [missing]
    with capture_logs() as logs:
        async with running(url, miner, tmp_path):
            await fake.until(lambda: any(one["event"] == "model not loaded" for one in logs))
            fake.units = [unit(2)]
            await fake.until(lambda: bool(fake.results))
    failure = next(entry for entry in logs if entry["event"] == "model not loaded")
    assert "has no revision" in failure["reason"]
    assert [result.unit_id for result in fake.results] == [unit(2).unit_id]


async def test_a_finished_result_is_offered_after_a_restart(gateway, miner, unit, tmp_path):
    fake, url = gateway
    fake.units = [unit()]
    refused: list[str] = []

    def refuse(path: str) -> web.Response | None:
        if not path.endswith("result"):
            return None
        refused.append(path)
        return web.Response(status=503)

    fake.refuse = refuse
    async with running(url, miner, tmp_path):
        await fake.until(lambda: bool(refused))
    folder = tmp_path / "miner.leases"
    assert {path.name.split(".")[1] for path in folder.iterdir()} == {"lease", "stack", "result"}
    fake.refuse = lambda path: None
    async with running(url, miner, tmp_path):
        await fake.until(lambda: bool(fake.results))
    (result,) = fake.results
    assert verify_statement(miner.ss58_address, statement_of_result(result), result.signature)
    assert fake.released == []
    assert {path.name.split(".")[1] for path in folder.iterdir()} == {"over"}


async def killed_at_work(gateway, tmp_path) -> None:
    fake, url = gateway
    async with process(url, tmp_path) as started:
        await fake.until(lambda: any(tokens > 0 for tokens in fake.heartbeats))
        started.kill()
        await started.wait()


async def test_a_killed_miner_takes_its_unit_up_again(gateway, unit, tmp_path):
    fake, url = gateway
    fake.units = [unit(max_tokens=200)]
    await killed_at_work(gateway, tmp_path)
    assert fake.results == []
    async with process(url, tmp_path):
        await fake.until(lambda: bool(fake.results))
    assert len(fake.leased) == 1
    assert fake.released == []


async def test_a_lease_that_ended_meanwhile_is_dropped(gateway, unit, tmp_path):
    fake, url = gateway
    fake.units = [unit(1, max_tokens=200)]
    await killed_at_work(gateway, tmp_path)
    fake.stopped, fake.units = set(fake.leased), [unit(2)]
    async with process(url, tmp_path):
        await fake.until(lambda: bool(fake.results))
    assert [result.unit_id for result in fake.results] == [unit(2).unit_id]


async def test_a_unit_of_another_stack_is_given_back(gateway, unit, tmp_path):
    fake, url = gateway
    fake.units = [unit(1, max_tokens=200)]
    await killed_at_work(gateway, tmp_path)
    # As if the engine had been updated since: the gateway takes a result of the old one alone.
    (path,) = (tmp_path / "miner.leases").glob("*.stack.json")
    path.write_text(path.read_text().replace('"version":"', '"version":"0.'))
    async with process(url, tmp_path):
        await fake.until(lambda: bool(fake.released))
    assert fake.released[0] == next(iter(fake.leased))


async def test_the_next_lease_is_there_before_a_unit_ends(gateway, miner, unit, tmp_path):
    fake, url = gateway
    fake.units = [unit(1, max_tokens=200), unit(2), unit(3)]
    async with running(url, miner, tmp_path):
        await fake.until(lambda: len(fake.leased) == 2)
        assert fake.results == []
        await fake.until(lambda: len(fake.results) == 3)
    assert [result.unit_id for result in fake.results] == [unit(n).unit_id for n in (1, 2, 3)]
    assert fake.released == []


async def test_a_lease_fetched_ahead_is_given_back_at_the_end(gateway, miner, unit, tmp_path):
    fake, url = gateway
    fake.units = [unit(1, max_tokens=200), unit(2)]
    async with running(url, miner, tmp_path):
        await fake.until(lambda: len(fake.leased) == 2)
    _, second = fake.leased
    assert second in fake.released
    assert len(fake.results) + len(fake.released) == 2


@asynccontextmanager
async def process(
    url: str, tmp_path: Path, **more: str
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a miner as its own process, as the command line does."""
    options = {
        "GATEWAY": url,
        "HOTKEY": str(tmp_path / "miner"),
        "ENGINE": "transformers",
        "ENGINE_FACTORY": "scripted_engines:Counting",
        "MODELS": str(tmp_path / "models"),
        "POLL_SECONDS": "0.1",
    }
    variables = {f"RELIQUARY_MINER_{name}": value for name, value in (options | more).items()}
    started = await asyncio.create_subprocess_exec(
        sys.executable, "-c", RUN, env=os.environ | variables, stdout=asyncio.subprocess.PIPE
    )
    try:
        yield started
    finally:
        if started.returncode is None:
            started.kill()
            await started.wait()


async def test_sigterm_releases_a_long_unit(gateway, unit, tmp_path):
    fake, url = gateway
    fake.units = [unit(max_tokens=3_000)]
    async with process(url, tmp_path, STOP_SECONDS="0.3") as started:
        await fake.until(lambda: any(tokens > 0 for tokens in fake.heartbeats))
        started.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(started.wait(), 30) == 0
    assert list(fake.leased) == fake.released
    assert fake.results == []


async def test_sigterm_lets_a_short_unit_finish(gateway, unit, tmp_path):
    fake, url = gateway
    fake.units = [unit(1, max_tokens=100), unit(2)]
    async with process(url, tmp_path, STOP_SECONDS="60") as started:
        await fake.until(lambda: bool(fake.heartbeats))
        started.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(started.wait(), 60) == 0
    assert [result.unit_id for result in fake.results] == [unit(1).unit_id]
    assert fake.released == []


async def test_a_second_signal_stops_at_once(gateway, unit, tmp_path):
    fake, url = gateway
    fake.units = [unit(max_tokens=3_000)]
    async with process(url, tmp_path, STOP_SECONDS="600") as started:
        await fake.until(lambda: bool(fake.heartbeats))
        started.send_signal(signal.SIGINT)
        before = len(fake.heartbeats)
        await fake.until(lambda: len(fake.heartbeats) >= before + 2)
        started.send_signal(signal.SIGINT)
        assert await asyncio.wait_for(started.wait(), 30) == 0
    assert fake.results == []
