"""Weights: once an epoch from one pinned block, read back, and an alert where they do not count.

What happened is kept in a file before and after each submission, so a restart neither forgets a
commit that waits for its reveal nor sets an epoch's weights twice.
"""

import asyncio
import os
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import structlog
from bittensor_core import Keypair
from pydantic import BaseModel, ConfigDict, ValidationError

from protocol.chain.base import Chain, ChainError, Parameters, WeightRow, WeightsRefused
from protocol.chain.weights import is_applied, to_weights

# Weights are read back until this many blocks after they were due: a reveal waits for its beacon.
GRACE_BLOCKS = 15
POLL_SECONDS = 30.0

log = structlog.get_logger(__name__)


class StateError(ValueError):
    """The file of the weights' state cannot be used; the message says which and what to do."""


@dataclass(frozen=True)
class Earned:
    """Scores by hotkey and the score of nobody, which is burnt, in one unit."""

    scores: Mapping[str, int]
    burnt: int


# Called with the pinned block; None where the records up to it are not known yet.
Scorer = Callable[[int], Awaitable[Earned | None]]


class Outcome(StrEnum):
    """What a turn came to."""

    idle = "idle"
    unknown = "unknown"
    refused = "refused"
    submitted = "submitted"
    applied = "applied"
    not_applied = "not applied"


class Submitted(BaseModel):
    """Weights that the chain accepted and that were not seen to count yet.

    Attributes:
        epoch_block: the block that their scores are of.
        block: the block that includes them.
        reveal_block: where they are revealed; None: they count at once.
        weights: u16 by hotkey.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    epoch_block: int
    block: int
    reveal_block: int | None
    weights: dict[str, int]

    @property
    def due_block(self) -> int:
        """From where on they should count."""
        return self.block if self.reveal_block is None else self.reveal_block


class State(BaseModel):
    """What is kept over a restart.

    Attributes:
        epoch_block: the first block of the epoch that was dealt with last.
        trying: its weights while it is not known whether the chain took them.
        tried_at_block: the newest block when they were submitted first.
        waiting: what was accepted, oldest first.
    """

    model_config = ConfigDict(extra="forbid")

    epoch_block: int = -1
    trying: dict[str, int] | None = None
    tried_at_block: int = -1
    waiting: list[Submitted] = []


class WeightSetter:
    """Sets one validator's weights, an epoch at a time.

    Args:
        chain: where to.
        keypair: the validator's hotkey.
        scorer: gives what was earned up to a block; must give every validator the same.
        version_key: which version of the scoring rules ``scorer`` follows.
        path: the file of the state, made at the first submission; its folder must exist.

    Raises:
        StateError: the file is damaged.
    """

    def __init__(
        self, chain: Chain, keypair: Keypair, scorer: Scorer, version_key: int, path: Path
    ) -> None:
        self._chain = chain
        self._keypair = keypair
        self._scorer = scorer
        self._version_key = version_key
        self._path = path
        self._state = _load(path)
        self._unknown_block = -1

    async def run(self, poll_seconds: float = POLL_SECONDS) -> None:
        """Take a turn every ``poll_seconds`` until cancelled. The chain's failures are logged."""
        try:
            await self._chain.check()
        except ChainError as error:
            log.error("the chain cannot be used now", reason=str(error))
        while True:
            try:
                await self.turn()
            except ChainError as error:
                log.warning("weights wait for the chain", reason=str(error))
            except OSError as error:
                log.error("the weights' state cannot be kept", reason=str(error))
            await asyncio.sleep(poll_seconds)

    async def turn(self) -> Outcome:
        """Read back what is due, else set the weights of a new epoch.

        Returns:
            What was done; ``not_applied`` is the alert that weights do not count, logged as an
            error.

        Raises:
            ChainError: the chain cannot be used now. Nothing is lost by trying again.
        """
        rules = await self._chain.parameters()
        due = [entry for entry in self._state.waiting if entry.due_block <= rules.block]
        if due:
            outcome = await self._read_back(due, rules)
            if outcome is not Outcome.idle:
                return outcome
            # A later submission would hide what is still to be read back.
            if due[-1].due_block + GRACE_BLOCKS > rules.block:
                return outcome
        if self._state.trying is None and rules.epoch_block <= self._state.epoch_block:
            return Outcome.idle
        return await self._set(rules)

    async def _read_back(self, due: list[Submitted], rules: Parameters) -> Outcome:
        row = await self._chain.weight_row(self._keypair.ss58_address)
        snapshot = await self._chain.snapshot(row.block)
        for entry in reversed(due):
            if is_applied(row, entry.weights, snapshot, entry.block):
                # What was submitted before it is overwritten.
                self._drop(lambda other, block=entry.block: other.block <= block)
                log.info("weights applied", epoch_block=entry.epoch_block, at_block=row.block)
                return Outcome.applied
        late = [entry for entry in due if entry.due_block + GRACE_BLOCKS <= rules.block]
        if not late:
            return Outcome.idle
        self._drop(lambda other: other in late)
        for entry in late:
            _alert(entry, row)
        return Outcome.not_applied

    async def _set(self, rules: Parameters) -> Outcome:
        state = self._state
        if state.trying is not None and rules.epoch_block == state.epoch_block:
            row = await self._chain.weight_row(self._keypair.ss58_address)
            if row.updated_at_block >= state.tried_at_block:
                # The chain took them, and its answer was lost.
                reveal = rules.reveal_block if rules.commit_reveal else None
                return self._accepted(state.trying, row.updated_at_block, reveal)
        weights = await self._weights(rules)
        if weights is None:
            return Outcome.unknown
        if rules.epoch_block != state.epoch_block:
            state.epoch_block, state.tried_at_block = rules.epoch_block, rules.block
        state.trying = weights or None
        self._save()
        if not weights:
            log.warning("no weights: nobody earned anything", epoch_block=rules.epoch_block)
            return Outcome.idle
        try:
            submission = await self._chain.set_weights(self._keypair, weights, self._version_key)
        except WeightsRefused as error:
            level = log.info if error.rule == "rate_limit" else log.error
            level("weights refused", rule=error.rule, reason=str(error))
            return Outcome.refused
        return self._accepted(weights, submission.block, submission.reveal_block)

    async def _weights(self, rules: Parameters) -> dict[str, int] | None:
        earned = await self._scorer(rules.epoch_block)
        if earned is None:
            if rules.epoch_block != self._unknown_block:
                log.info("no scores yet", block=rules.epoch_block)
            self._unknown_block = rules.epoch_block
            return None
        # Who was there at the pinned block, so that validators of other speed find the same.
        registered = {
            neuron.hotkey
            for neuron in (await self._chain.snapshot()).neurons.values()
            if neuron.registered_at_block <= rules.epoch_block
        }
        return to_weights(
            earned.scores, earned.burnt, rules.owner_hotkey, registered, rules.max_weight
        )

    def _accepted(self, weights: dict[str, int], block: int, reveal_block: int | None) -> Outcome:
        state = self._state
        log.info(
            "weights accepted", epoch_block=state.epoch_block, block=block, reveal=reveal_block
        )
        state.waiting.append(
            Submitted(
                epoch_block=state.epoch_block,
                block=block,
                reveal_block=reveal_block,
                weights=weights,
            )
        )
        state.trying = None
        self._save()
        return Outcome.submitted

    def _drop(self, which: Callable[[Submitted], bool]) -> None:
        self._state.waiting = [entry for entry in self._state.waiting if not which(entry)]
        self._save()

    def _save(self) -> None:
        with tempfile.NamedTemporaryFile("w", dir=self._path.parent, delete=False) as file:
            file.write(self._state.model_dump_json())
            file.flush()
            os.fsync(file.fileno())
        Path(file.name).replace(self._path)


def _alert(entry: Submitted, row: WeightRow) -> None:
    log.error(
        "weights not applied",
        epoch_block=entry.epoch_block,
        submitted_at_block=entry.block,
        due_block=entry.due_block,
        read_at_block=row.block,
        remedy="the chain dropped them at their reveal: check permit, stake and version key",
    )


def _load(path: Path) -> State:
    if not path.exists():
        return State()
    try:
        return State.model_validate_json(path.read_bytes())
    except OSError as error:
        raise StateError(f"cannot read the weights' state {path}: {error.strerror}") from error
    except ValidationError as error:
        reason = error.errors()[0]["msg"]
        raise StateError(
            f"the weights' state {path} is damaged ({reason}); delete it to start anew"
        ) from error
