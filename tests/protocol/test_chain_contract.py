"""What every chain must do, over ``LocalChain`` and over the real client at a fake node."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from chain_metadata import runtime_metadata
from chain_world import (
    ALICE,
    BOB,
    CAROL,
    FIRST_BLOCK,
    KEYS,
    OWNER,
    RATE_LIMIT,
    STRANGER,
    TEMPO,
    VALIDATOR,
    ChainWorld,
    behind_a_node,
)

from protocol.chain.base import U16_MAX, ChainError, NotRegistered, Submission, WeightsRefused
from protocol.chain.local import Rules
from protocol.chain.weights import is_applied

SIGNER = KEYS["Validator"]
WEIGHTS = {ALICE: U16_MAX, BOB: 20_000, OWNER: 1}


@pytest.fixture(params=["local", "bittensor"])
async def world(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[ChainWorld]:
    world = ChainWorld(tmp_path)
    if request.param == "local":
        yield world
        return
    monkeypatch.setenv("BITTENSOR_RUNTIME_CACHE_DIR", str(tmp_path))
    async with behind_a_node(world, runtime_metadata()):
        yield world


async def test_blocks_and_their_hashes(world: ChainWorld):
    head = await world.chain.head()
    assert (head.block, len(head.block_hash)) == (FIRST_BLOCK, 64)
    assert await world.chain.block_hash(FIRST_BLOCK) == head.block_hash
    world.advance(1)
    assert (await world.chain.head()).block == FIRST_BLOCK + 1
    assert await world.chain.block_hash(FIRST_BLOCK) == head.block_hash
    with pytest.raises(ChainError, match="not there yet"):
        await world.chain.block_hash(FIRST_BLOCK + 2)


async def test_a_snapshot_is_of_one_block(world: ChainWorld):
    before = await world.chain.snapshot()
    world.advance(5)
    world.replace(BOB, CAROL)
    world.local.register(VALIDATOR, VALIDATOR, stake_rao=7)
    world.advance(5)
    assert before.block == FIRST_BLOCK
    assert list(before.neurons) == [OWNER, VALIDATOR, ALICE, BOB]
    assert before.neurons[VALIDATOR].validator_permit
    assert before.neurons[VALIDATOR].stake_rao == 1_000
    assert before.neurons[ALICE].coldkey == OWNER
    assert before.neurons[ALICE].registered_at_block == 10
    assert await world.chain.snapshot(FIRST_BLOCK) == before
    now = await world.chain.snapshot()
    assert now.block == FIRST_BLOCK + 10
    assert list(now.neurons) == [OWNER, VALIDATOR, ALICE, CAROL]
    assert now.neurons[CAROL].uid == before.neurons[BOB].uid
    assert now.neurons[CAROL].registered_at_block == FIRST_BLOCK + 5
    assert not now.neurons[VALIDATOR].validator_permit


async def test_the_rules_of_the_subnet(world: ChainWorld):
    changes = Rules(
        tempo=90,
        weights_rate_limit=11,
        weights_version_key=12,
        min_stake_rao=13,
        commit_reveal=True,
        reveal_period_epochs=2,
        immunity_blocks=14,
        min_weights=3,
        max_weight=30_000,
        owner_hotkey=ALICE,
    )
    world.local.set_rules(**changes)
    rules = await world.chain.parameters()
    assert {name: getattr(rules, name) for name in changes} == changes
    assert (rules.block, rules.epoch, rules.epoch_block) == (1_000, 11, 990)
    assert (rules.max_uids, rules.reveal_block) == (256, 1_170)


async def test_weights_are_set_and_read_back(world: ChainWorld):
    submission = await world.chain.set_weights(SIGNER, WEIGHTS, 0)
    assert submission == Submission(FIRST_BLOCK, None)
    world.advance(1)
    row = await world.chain.weight_row(VALIDATOR)
    assert (row.block, row.updated_at_block) == (FIRST_BLOCK + 1, FIRST_BLOCK)
    assert row.weights == WEIGHTS
    assert is_applied(row, WEIGHTS, await world.chain.snapshot(), submission.block)


async def test_later_weights_replace_earlier_ones(world: ChainWorld):
    await world.chain.set_weights(SIGNER, WEIGHTS, 0)
    world.advance(RATE_LIMIT)
    await world.chain.set_weights(SIGNER, {BOB: U16_MAX}, 0)
    world.advance(1)
    assert (await world.chain.weight_row(VALIDATOR)).weights == {BOB: U16_MAX}


@pytest.mark.parametrize(
    ("rule", "changes", "weights"),
    [
        ("stake", Rules(min_stake_rao=1_001), WEIGHTS),
        ("version_key", Rules(weights_version_key=4), WEIGHTS),
        ("rate_limit", Rules(weights_rate_limit=FIRST_BLOCK), WEIGHTS),
        ("count", Rules(min_weights=3), {ALICE: U16_MAX, BOB: 1}),
        ("count", Rules(), {}),
        ("max_weight", Rules(max_weight=30_000), WEIGHTS),
        ("uids", Rules(), {ALICE: U16_MAX + 1}),
        ("uids", Rules(), {ALICE: U16_MAX, BOB: 0}),
    ],
)
@pytest.mark.parametrize("sealed", [False, True])
async def test_a_broken_rule_is_named_before_anything_is_submitted(
    world: ChainWorld, rule: str, changes: Rules, weights: dict[str, int], sealed: bool
):
    world.local.set_rules(**changes, commit_reveal=sealed)
    with pytest.raises(WeightsRefused) as refused:
        await world.chain.set_weights(SIGNER, weights, 3)
    assert refused.value.rule == rule
    assert (await world.chain.weight_row(VALIDATOR)).updated_at_block == 10


async def test_without_a_permit_no_weights(world: ChainWorld):
    world.local.register(VALIDATOR, VALIDATOR, stake_rao=1_000)
    with pytest.raises(WeightsRefused, match="permit") as refused:
        await world.chain.set_weights(SIGNER, WEIGHTS, 0)
    assert refused.value.rule == "permit"


async def test_weights_are_set_once_in_the_rate_limit(world: ChainWorld):
    await world.chain.set_weights(SIGNER, WEIGHTS, 0)
    world.advance(RATE_LIMIT - 1)
    with pytest.raises(WeightsRefused, match="wait 1 of 20") as refused:
        await world.chain.set_weights(SIGNER, WEIGHTS, 0)
    assert refused.value.rule == "rate_limit"
    world.advance(1)
    await world.chain.set_weights(SIGNER, WEIGHTS, 0)


async def test_strangers_neither_set_nor_get_weights(world: ChainWorld):
    with pytest.raises(NotRegistered, match=STRANGER):
        await world.chain.set_weights(KEYS["Stranger"], WEIGHTS, 0)
    with pytest.raises(NotRegistered, match=STRANGER):
        await world.chain.set_weights(SIGNER, {STRANGER: U16_MAX}, 0)
    with pytest.raises(NotRegistered, match=STRANGER):
        await world.chain.weight_row(STRANGER)


async def test_a_reused_uid_inherits_no_weight(world: ChainWorld):
    await world.chain.set_weights(SIGNER, WEIGHTS, 0)
    world.advance(5)
    world.replace(BOB, CAROL)
    row = await world.chain.weight_row(VALIDATOR)
    assert row.weights == {ALICE: U16_MAX, OWNER: 1}
    assert is_applied(row, WEIGHTS, await world.chain.snapshot(), FIRST_BLOCK)


async def test_a_commit_counts_from_its_reveal_on(world: ChainWorld):
    await world.chain.set_weights(SIGNER, {BOB: U16_MAX}, 0)
    world.advance(RATE_LIMIT)
    world.local.set_rules(commit_reveal=True)
    world.seal(WEIGHTS)
    submission = await world.chain.set_weights(SIGNER, WEIGHTS, 0)
    assert submission == Submission(FIRST_BLOCK + RATE_LIMIT, FIRST_BLOCK + TEMPO)
    world.advance(TEMPO - RATE_LIMIT - 1)
    row = await world.chain.weight_row(VALIDATOR)
    assert row.updated_at_block == submission.block
    assert ALICE not in row.weights
    assert not is_applied(row, WEIGHTS, await world.chain.snapshot(), submission.block)
    world.advance(1)
    row = await world.chain.weight_row(VALIDATOR)
    assert row.weights == WEIGHTS
    assert is_applied(row, WEIGHTS, await world.chain.snapshot(), submission.block)


@pytest.mark.parametrize("lost", ["permit", "stake", "version_key", "registration"])
async def test_what_is_lost_before_the_reveal_loses_the_weights_without_an_error(
    world: ChainWorld, lost: str
):
    world.local.set_rules(commit_reveal=True)
    world.seal(WEIGHTS)
    submission = await world.chain.set_weights(SIGNER, WEIGHTS, 0)
    world.advance(10)
    if lost == "permit":
        world.local.register(VALIDATOR, VALIDATOR, stake_rao=1_000)
    elif lost == "stake":
        world.local.register(VALIDATOR, VALIDATOR, validator_permit=True, stake_rao=1)
    elif lost == "version_key":
        world.local.set_rules(weights_version_key=1)
    else:
        world.replace(VALIDATOR, CAROL)
        world.replace(CAROL, VALIDATOR)
    world.advance(TEMPO)
    row = await world.chain.weight_row(VALIDATOR)
    assert row.weights == {}
    assert not is_applied(row, WEIGHTS, await world.chain.snapshot(), submission.block)


async def test_who_took_a_uid_over_before_the_reveal_gets_nothing(world: ChainWorld):
    world.local.set_rules(commit_reveal=True)
    world.seal(WEIGHTS)
    submission = await world.chain.set_weights(SIGNER, WEIGHTS, 0)
    world.advance(10)
    world.replace(BOB, CAROL)
    world.advance(TEMPO)
    row = await world.chain.weight_row(VALIDATOR)
    assert row.weights == {ALICE: U16_MAX, OWNER: 1}
    assert is_applied(row, WEIGHTS, await world.chain.snapshot(), submission.block)


async def test_an_endpoint_is_published_and_found(world: ChainWorld):
    assert await world.chain.endpoint(OWNER) is None
    await world.chain.publish_endpoint(KEYS["Owner"], "https://gateway.example:8443/")
    assert await world.chain.endpoint(OWNER) == "https://gateway.example:8443"
    await world.chain.publish_endpoint(KEYS["Owner"], "http://10.1.2.3:8000")
    assert await world.chain.endpoint(OWNER) == "http://10.1.2.3:8000"
    assert await world.chain.endpoint(ALICE) is None
    with pytest.raises(NotRegistered):
        await world.chain.publish_endpoint(KEYS["Stranger"], "https://gateway.example")
    with pytest.raises(ChainError, match="not an origin"):
        await world.chain.publish_endpoint(KEYS["Owner"], "gateway.example")


async def test_a_closed_chain_can_be_used_again(world: ChainWorld):
    await world.chain.head()
    await world.chain.aclose()
    assert (await world.chain.head()).block == FIRST_BLOCK
