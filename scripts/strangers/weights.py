"""Reading back what validators set on the chain, epoch by epoch, and what it should have been."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from protocol.canonical import canonical_json
from protocol.chain.base import Chain, Parameters
from protocol.chain.weights import to_weights
from protocol.epochs import EpochRecord
from protocol.records import Records
from scoring.epochs import scores_at
from scoring.pay import PayRule
from validator.scores import SETTLED_BLOCKS

Weights = Mapping[str, int]
RULE = PayRule()


@dataclass(frozen=True)
class EpochWeights:
    """The weights of one epoch of the chain.

    Attributes:
        number: counted from 1, the first epoch with weights.
        block: the chain's epoch's first block, whose scores they are.
        record: number of the newest public record that counts.
        rows: u16 by hotkey, by validator; a validator that set none is left out.
        expected: what the public record comes to, computed here.
    """

    number: int
    block: int
    record: int
    rows: Mapping[str, Weights]
    expected: Weights

    def agrees(self, validators: int) -> bool:
        """Say whether so many validators set weights, all the same bytes."""
        encoded = {canonical_json(dict(row)) for row in self.rows.values()}
        return len(self.rows) == validators and len(encoded) == 1

    def share(self, hotkey: str) -> float:
        """Return a hotkey's share of the first validator's weights, from 0 to 1."""
        row = next(iter(self.rows.values()), {})
        return row.get(hotkey, 0) / max(1, sum(row.values()))


@dataclass
class WeightWatch:
    """Looks at the chain again and again and keeps what each validator set in each epoch.

    Args:
        chain: the network's.
        origin: the gateway's, for its public records.
        gateway: the gateway's hotkey.
        validators: hotkeys by name.
        folder: keeps the records.
    """

    chain: Chain
    origin: str
    gateway: str
    validators: Mapping[str, str]
    folder: Path
    epochs: list[EpochWeights] = field(default_factory=list)
    records: list[EpochRecord] = field(default_factory=list)
    _seen: dict[int, dict[str, Weights]] = field(default_factory=dict)

    async def look(self) -> list[EpochWeights]:
        """Return the epochs whose weights are all there since the last look.

        An epoch that is over is complete, whoever set no weights in it.

        Raises:
            ChainError: the chain cannot be read.
            RecordsUnavailable, RecordFault: the public record cannot, or does not hold.
        """
        rules = await self.chain.parameters()
        for name, hotkey in self.validators.items():
            row = await self.chain.weight_row(hotkey)
            if row.weights:
                first = row.updated_at_block // rules.tempo * rules.tempo
                self._seen.setdefault(first, {})[name] = row.weights
        known = self.epochs[-1].block if self.epochs else -1
        found: list[EpochWeights] = []
        for block, rows in sorted(self._seen.items()):
            over = block < rules.epoch_block
            if block > known and (len(rows) == len(self.validators) or over):
                number = len(self.epochs) + 1
                found.append(await self._epoch(number, block, rows, rules))
                self.epochs.append(found[-1])
        return found

    async def update_records(self) -> None:
        """Fetch the public records that are new.

        Raises:
            RecordsUnavailable, RecordFault: they cannot be read, or do not hold.
        """
        self.records = await Records(self.origin, self.gateway, self.folder / self.gateway).update()

    async def _epoch(
        self, number: int, block: int, rows: Mapping[str, Weights], rules: Parameters
    ) -> EpochWeights:
        await self.update_records()
        settled = block - SETTLED_BLOCKS
        scored = scores_at(self.records, settled, RULE)
        expected: Weights = {}
        if scored is not None:
            registered = (await self.chain.snapshot(block)).neurons
            owner, most = rules.owner_hotkey, rules.max_weight
            expected = to_weights(scored.shares(), scored.burnt, owner, registered, most)
        newest = max(
            (
                record.statement.number
                for record in self.records
                if record.statement.block <= settled
            ),
            default=-1,
        )
        return EpochWeights(number, block, newest, dict(sorted(rows.items())), expected)
