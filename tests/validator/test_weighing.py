"""From the gateway's public records to weights, where the chain is all that is given."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from bittensor_core import Keypair
from chain_world import ALICE, BOB, FIRST_BLOCK, KEYS, OWNER, VALIDATOR, ChainWorld

from protocol.chain.base import U16_MAX
from protocol.epochs import EpochList, EpochRecord, EpochStatement, EpochSummary, signed_record
from validator.settings import ValidatorSettings
from validator.weighing import setting_weights

NANO_A_TOKEN = 900


def record(gateway: Keypair) -> EpochRecord:
    """An epoch in which Alice's verified work was worth half of the emission."""
    entry = {
        "verdict_id": "0" * 36, "document": "0" * 64, "unit_id": "0" * 36, "attempt": 1,
        "model": "a/b", "validator": VALIDATOR, "miner": ALICE, "coldkey": OWNER, "verified": 4,
        "void": 0, "tokens": 1_000, "prompt_tokens": 0, "token_nano": NANO_A_TOKEN,
        "prompt_token_nano": 0,
    }  # fmt: skip
    statement = {
        "number": 1, "starts_at": 1, "ends_at": 2, "block": FIRST_BLOCK - 50,
        "block_hash": "0" * 64, "previous": None, "lapses": [], "verdicts": [entry],
        "convictions": [], "emission_nano": 2 * 900 * NANO_A_TOKEN,
    }  # fmt: skip
    return signed_record(gateway, EpochStatement.model_validate(statement))


@asynccontextmanager
async def records_served(shown: EpochRecord) -> AsyncIterator[str]:
    """A gateway's routes of records alone; gives its origin."""
    summary = EpochSummary(number=1, digest=shown.digest, block=shown.statement.block)

    async def listed(_: web.Request) -> web.Response:
        return web.Response(text=EpochList(epochs=[summary]).model_dump_json())

    async def one(_: web.Request) -> web.Response:
        return web.Response(body=shown.encoded())

    app = web.Application()
    app.add_routes([web.get("/api/v1/epochs", listed), web.get("/api/v1/epochs/1", one)])
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


def settings_of(folder: Path) -> ValidatorSettings:
    given = {"chain": f"local:{folder}/chain.sqlite", "hotkey": folder / "hotkey.json"}
    return ValidatorSettings.model_validate(given)


async def test_weights_follow_the_records_of_the_gateway_on_the_chain(tmp_path: Path):
    world = ChainWorld(tmp_path)
    async with records_served(record(KEYS["Owner"])) as origin:
        await world.local.publish_endpoint(KEYS["Owner"], origin)
        settings = await settings_of(tmp_path).located(world.clock)
        async with setting_weights(settings, KEYS["Validator"], world.clock), asyncio.timeout(60):
            row = await world.local.weight_row(VALIDATOR)
            while not row.weights:
                await asyncio.sleep(0.05)
                row = await world.local.weight_row(VALIDATOR)
    assert (settings.gateway, settings.gateway_hotkey) == (origin, OWNER)
    assert set(row.weights) == {ALICE, OWNER}
    assert row.weights[OWNER] == U16_MAX
    assert BOB not in row.weights
    assert settings.weights_path.exists()


async def test_records_of_another_hotkey_set_no_weights(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    world = ChainWorld(tmp_path)
    said = ""
    async with records_served(record(KEYS["Stranger"])) as origin:
        await world.local.publish_endpoint(KEYS["Owner"], origin)
        settings = await settings_of(tmp_path).located(world.clock)
        async with setting_weights(settings, KEYS["Validator"], world.clock), asyncio.timeout(60):
            while "does not hold" not in said:
                await asyncio.sleep(0.05)
                said += capsys.readouterr().out
    assert (await world.local.weight_row(VALIDATOR)).weights == {}


async def test_without_a_chain_nothing_is_set(tmp_path: Path):
    given = {"gateway": "http://127.0.0.1:9", "hotkey": tmp_path / "hotkey.json"}
    settings = ValidatorSettings.model_validate(given)
    async with setting_weights(settings, KEYS["Validator"], lambda: 0.0):
        await asyncio.sleep(0)
    assert not settings.weights_path.exists()
