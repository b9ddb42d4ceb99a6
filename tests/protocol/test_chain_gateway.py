from pathlib import Path

import pytest
from chain_world import ALICE, KEYS, OWNER, ChainWorld
from pydantic import ValidationError

from protocol.chain.base import ChainError
from protocol.chain.gateway import Gateway, NodeSettings, find_gateway

URL = "https://gateway.example"


@pytest.fixture
def world(tmp_path: Path) -> ChainWorld:
    return ChainWorld(tmp_path)


async def test_the_gateway_is_where_the_owner_says(world: ChainWorld):
    await world.chain.publish_endpoint(KEYS["Owner"], URL)
    await world.chain.publish_endpoint(KEYS["Alice"], "https://other.example")
    assert await find_gateway(world.chain, None) == Gateway(URL, OWNER)
    assert await find_gateway(world.chain, ALICE) == Gateway("https://other.example", ALICE)


async def test_a_gateway_that_is_not_there_is_told(world: ChainWorld):
    with pytest.raises(ChainError, match=f"{OWNER} has published no gateway"):
        await find_gateway(world.chain, None)
    world.local.set_rules(owner_hotkey=None)
    with pytest.raises(ChainError, match="give --gateway-hotkey"):
        await find_gateway(world.chain, None)


async def test_settings_are_filled_in_from_the_chain(world: ChainWorld, tmp_path: Path):
    await world.chain.publish_endpoint(KEYS["Owner"], URL)
    chain = f"local:{tmp_path}/chain.sqlite"
    settings = NodeSettings.model_validate({"chain": chain})
    found = await settings.located(world.clock)
    assert (found.gateway, found.gateway_hotkey) == (URL, OWNER)
    given = NodeSettings.model_validate({"chain": chain, "gateway": "http://127.0.0.1:8000"})
    assert await given.located(world.clock) == given


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({}, "is needed, or --chain to find it on"),
        ({"gateway": "gateway.example"}, "should match pattern"),
        ({"gateway": "https://a.example/path"}, "should match pattern"),
        ({"chain": "bittensor:finney"}, "bittensor:NETWORK:NETUID"),
    ],
)
def test_what_is_missing_or_wrong_is_told_once(given: dict[str, str], complaint: str):
    with pytest.raises(ValidationError, match=complaint) as refused:
        NodeSettings.model_validate(given)
    assert refused.value.error_count() == 1
