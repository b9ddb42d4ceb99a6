import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from bittensor_core import Keypair
from chain_metadata import runtime_metadata
from chain_world import (
    ALICE,
    BOB,
    CAROL,
    FIRST_BLOCK,
    KEYS,
    OWNER,
    RATE_LIMIT,
    TEMPO,
    VALIDATOR,
    ChainWorld,
    behind_a_node,
)

from protocol.chain.base import U16_MAX, ChainError, Submission
from protocol.chain.local import LocalChain
from protocol.chain.weights import NothingToBurnTo
from validator.weights import GRACE_BLOCKS, Earned, Outcome, StateError, WeightSetter

SIGNER = KEYS["Validator"]
EPOCH = FIRST_BLOCK // TEMPO * TEMPO
HALF = {ALICE: U16_MAX, OWNER: U16_MAX}


class Scorer:
    """Gives what a test says, and keeps which blocks it was asked for."""

    def __init__(self) -> None:
        self.earned: Earned | None = Earned({ALICE: 10}, 10)
        self.asked: list[int] = []

    async def __call__(self, block: int) -> Earned | None:
        self.asked.append(block)
        return self.earned


class Validator:
    """A setter of weights whose process can end and begin again."""

    def __init__(self, world: ChainWorld, folder: Path) -> None:
        self.world = world
        self.path = folder / "weights.json"
        self.scorer = Scorer()
        self.restart()

    def restart(self) -> None:
        self.setter = WeightSetter(self.world.chain, SIGNER, self.scorer, 0, self.path)

    async def turn(self) -> Outcome:
        return await self.setter.turn()

    async def weights(self) -> Mapping[str, int]:
        return (await self.world.chain.weight_row(VALIDATOR)).weights


@pytest.fixture
def world(tmp_path: Path) -> ChainWorld:
    return ChainWorld(tmp_path)


@pytest.fixture
def validator(world: ChainWorld, tmp_path: Path) -> Validator:
    return Validator(world, tmp_path)


async def test_weights_are_set_once_an_epoch_and_read_back(world: ChainWorld, validator: Validator):
    assert await validator.turn() == Outcome.submitted
    assert await validator.turn() == Outcome.applied
    assert await validator.weights() == HALF
    world.advance(TEMPO - 1)
    assert await validator.turn() == Outcome.idle
    world.advance(1)
    validator.scorer.earned = Earned({ALICE: 1, BOB: 3}, 0)
    assert await validator.turn() == Outcome.submitted
    assert await validator.weights() == {ALICE: U16_MAX // 3, BOB: U16_MAX}
    assert validator.scorer.asked == [EPOCH, EPOCH + TEMPO]


async def test_a_restart_forgets_nothing(world: ChainWorld, validator: Validator):
    assert await validator.turn() == Outcome.submitted
    validator.restart()
    assert await validator.turn() == Outcome.applied
    validator.restart()
    assert await validator.turn() == Outcome.idle
    world.advance(TEMPO)
    assert await validator.turn() == Outcome.submitted


async def test_a_commit_is_read_back_after_its_reveal(world: ChainWorld, validator: Validator):
    world.local.set_rules(commit_reveal=True)
    assert await validator.turn() == Outcome.submitted
    world.advance(TEMPO - 1)
    validator.restart()
    assert await validator.turn() == Outcome.idle
    assert await validator.weights() == {}
    world.advance(1)
    assert await validator.turn() == Outcome.applied
    assert await validator.weights() == HALF
    assert await validator.turn() == Outcome.submitted


@pytest.mark.parametrize("lost", ["permit", "version_key"])
async def test_weights_lost_at_the_reveal_are_an_alert(
    world: ChainWorld, validator: Validator, lost: str, capsys: pytest.CaptureFixture[str]
):
    world.local.set_rules(commit_reveal=True)
    assert await validator.turn() == Outcome.submitted
    world.advance(TEMPO - 1)
    if lost == "permit":
        world.local.register(VALIDATOR, VALIDATOR, stake_rao=1_000)
    else:
        world.local.set_rules(weights_version_key=1)
    world.advance(1)
    assert await validator.turn() == Outcome.idle
    world.advance(GRACE_BLOCKS)
    validator.restart()
    assert await validator.turn() == Outcome.not_applied
    assert "weights not applied" in capsys.readouterr().out
    assert await validator.turn() == Outcome.refused
    world.local.set_rules(weights_version_key=0)
    world.local.register(VALIDATOR, VALIDATOR, validator_permit=True, stake_rao=1_000)
    assert await validator.turn() == Outcome.submitted


async def test_of_several_commits_the_newest_that_counts_settles_the_older(
    world: ChainWorld, validator: Validator
):
    world.local.set_rules(commit_reveal=True, reveal_period_epochs=2)
    assert await validator.turn() == Outcome.submitted
    world.advance(TEMPO)
    validator.scorer.earned = Earned({BOB: 1}, 0)
    assert await validator.turn() == Outcome.submitted
    world.advance(3 * TEMPO)
    assert await validator.turn() == Outcome.applied
    assert json.loads(validator.path.read_text())["waiting"] == []


async def test_the_rate_limit_is_waited_for(world: ChainWorld, validator: Validator):
    world.local.set_weights_of(VALIDATOR, {BOB: U16_MAX}, 0)
    world.advance(RATE_LIMIT - 1)
    assert await validator.turn() == Outcome.refused
    assert await validator.weights() == {BOB: U16_MAX}
    world.advance(1)
    validator.restart()
    assert await validator.turn() == Outcome.submitted
    assert await validator.weights() == HALF


async def test_without_scores_the_next_turn_tries_again(world: ChainWorld, validator: Validator):
    validator.scorer.earned = None
    assert await validator.turn() == Outcome.unknown
    validator.scorer.earned = Earned({}, 0)
    world.advance(3)
    assert await validator.turn() == Outcome.idle
    assert await validator.weights() == {}
    assert await validator.turn() == Outcome.idle
    assert validator.scorer.asked == [EPOCH, EPOCH]


async def test_who_came_after_the_pinned_block_gets_nothing(
    world: ChainWorld, validator: Validator
):
    world.advance(5)
    world.replace(BOB, CAROL)
    validator.scorer.earned = Earned({ALICE: 1, BOB: 1, CAROL: 1}, 0)
    world.advance(5)
    assert await validator.turn() == Outcome.submitted
    assert await validator.weights() == {ALICE: U16_MAX // 2, OWNER: U16_MAX}
    assert await validator.turn() == Outcome.applied


class LossyChain(LocalChain):
    """A chain that takes weights and whose answer is lost."""

    async def set_weights(
        self, keypair: Keypair, weights: Mapping[str, int], version_key: int
    ) -> Submission:
        await super().set_weights(keypair, weights, version_key)
        raise ChainError("the connection was lost")


async def test_a_lost_answer_is_not_answered_by_setting_twice(
    world: ChainWorld, validator: Validator
):
    chain, world.chain = (
        world.chain,
        LossyChain(validator.path.parent / "chain.sqlite", world.clock),
    )
    validator.restart()
    world.advance(1)
    with pytest.raises(ChainError, match="lost"):
        await validator.turn()
    world.chain = chain
    world.advance(1)
    validator.restart()
    assert await validator.turn() == Outcome.submitted
    assert (await chain.weight_row(VALIDATOR)).updated_at_block == FIRST_BLOCK + 1
    assert await validator.turn() == Outcome.applied


async def test_an_unregistered_owner_is_told(world: ChainWorld, validator: Validator):
    world.local.deregister(OWNER)
    with pytest.raises(NothingToBurnTo, match=OWNER):
        await validator.turn()


async def test_a_damaged_state_is_told(validator: Validator):
    await validator.turn()
    validator.path.write_text("{")
    with pytest.raises(StateError, match=r"weights\.json .* delete it"):
        validator.restart()


async def test_on_the_network_a_permit_lost_before_the_reveal_is_an_alert(
    world: ChainWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("BITTENSOR_RUNTIME_CACHE_DIR", str(tmp_path))
    async with behind_a_node(world, runtime_metadata()):
        validator = Validator(world, tmp_path)
        world.local.set_rules(commit_reveal=True)
        world.seal(HALF)
        assert await validator.turn() == Outcome.submitted
        world.advance(TEMPO - 1)
        world.local.register(VALIDATOR, VALIDATOR, stake_rao=1_000)
        world.advance(1 + GRACE_BLOCKS)
        assert await validator.turn() == Outcome.not_applied
        world.local.register(VALIDATOR, VALIDATOR, validator_permit=True, stake_rao=1_000)
        world.advance(1)
        world.seal(HALF)
        assert await validator.turn() == Outcome.submitted
        world.advance(TEMPO)
        assert await validator.turn() == Outcome.applied
        assert await validator.weights() == HALF
