"""From the public record of a live gateway to a validator's scores."""

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from bittensor_core import Keypair
from live_gateway import LiveGateway, live_gateway

from protocol.epochs import EpochRecord, EpochStatement, RecordFault, signed_record
from protocol.records import Records, RecordsUnavailable
from scoring.pay import PayRule
from validator.scores import SETTLED_BLOCKS, RecordScorer

MINER = Keypair.create_from_seed(bytes([7]) * 32).ss58_address
HEADERS = {"number": 1, "starts_at": 1, "ends_at": 2, "block": 100, "block_hash": "0" * 64}


@pytest.fixture
def clock() -> list[float]:
    return [1_762_000_000.0]


@pytest.fixture
def gateway(tmp_path: Path, clock: list[float]) -> Iterator[LiveGateway]:
    with live_gateway(tmp_path / "gateway", clock=lambda: clock[0], epoch_seconds=60) as running:
        yield running


def until(known: Records, count: int) -> list[EpochRecord]:
    """Read the records until there are so many; the gateway looks round every second."""

    deadline = time.monotonic() + 30
    while len(records := asyncio.run(known.update())) < count:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return records


def test_a_reader_keeps_what_it_has_read_and_notices_a_change(
    gateway: LiveGateway, clock: list[float], tmp_path: Path
) -> None:
    hotkey = gateway.state.keypair.ss58_address
    known = Records(gateway.origin, hotkey, tmp_path / "records")
    before = len(until(known, 1))
    clock[0] += 120
    records = until(known, before + 2)
    assert [record.statement.previous for record in records[1:]] == [
        record.digest for record in records[:-1]
    ]
    assert known.kept() == records
    # The same number, signed by the same gateway, but not what was read before.
    changed = records[0].statement.model_copy(update={"emission_nano": 5})
    path = tmp_path / "records" / f"epoch-{changed.number}.json"
    path.write_bytes(signed_record(gateway.state.keypair, changed).encoded())
    with pytest.raises(RecordFault, match="shows another record"):
        asyncio.run(known.update())
    path.write_bytes(b"{")
    with pytest.raises(RecordFault, match="is damaged; delete it"):
        asyncio.run(known.update())
    path.unlink()
    assert asyncio.run(known.update()) == records
    with pytest.raises(RecordFault, match="is not signed by"):
        asyncio.run(Records(gateway.origin, MINER, tmp_path / "other").update())


def test_nobody_answers(tmp_path: Path) -> None:
    with pytest.raises(RecordsUnavailable):
        asyncio.run(Records("http://127.0.0.1:9", MINER, tmp_path).update())


def record(**changes: object) -> EpochRecord:
    key = Keypair.create_from_seed(bytes([1]) * 32)
    entry = {
        "verdict_id": "0" * 36, "document": "0" * 64, "unit_id": "0" * 36, "attempt": 1,
        "model": "a/b", "validator": MINER, "miner": MINER, "coldkey": "owner", "verified": 4,
        "void": 0, "tokens": 100, "prompt_tokens": 50, "token_nano": 200, "prompt_token_nano": 20,
    }  # fmt: skip
    statement = HEADERS | {"previous": None, "emission_nano": 10**6, "lapses": []} | changes
    document = {**statement, "verdicts": [entry], "convictions": []}
    return signed_record(key, EpochStatement.model_validate(document))


async def test_scores_are_of_records_that_everybody_has_seen() -> None:
    async def update() -> list[EpochRecord]:
        return [record()]

    scorer = RecordScorer(update, PayRule())
    assert await scorer(99 + SETTLED_BLOCKS) is None
    earned = await scorer(100 + SETTLED_BLOCKS)
    assert earned is not None
    assert earned.scores == {MINER: 21_000}
    assert earned.burnt == 10**6 * 100 // 90 - 21_000


@pytest.mark.parametrize("error", [RecordsUnavailable("away"), RecordFault("changed")])
async def test_no_scores_from_records_that_cannot_be_trusted(error: Exception) -> None:
    async def update() -> list[EpochRecord]:
        raise error

    assert await RecordScorer(update, PayRule())(10**6) is None


def test_the_command_shows_and_explains(gateway: LiveGateway, tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from scripts.cli.app import app

    until(Records(gateway.origin, gateway.state.keypair.ss58_address, tmp_path / "r"), 1)
    runner = CliRunner()
    options = ["scores", "--gateway", gateway.origin, "--records", str(tmp_path / "epochs")]
    shown = runner.invoke(app, options)
    assert shown.exit_code == 0, shown.output
    assert "(burnt)" in shown.output
    explained = runner.invoke(app, [*options, "--explain", MINER])
    assert "did nothing that is on record" in str(explained.exception)
    kept = list((tmp_path / "epochs").rglob("epoch-*.json"))
    assert kept and json.loads(kept[0].read_bytes())["gateway"]
