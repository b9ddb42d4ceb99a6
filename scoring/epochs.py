"""From public records to scores: which records count, and what each says of every miner."""

from collections.abc import Sequence

from protocol.epochs import EpochRecord, EpochStatement
from scoring.pay import Convict, Epoch, PayRule, Scores, Work, scores


def scores_at(records: Sequence[EpochRecord], block: int, rule: PayRule) -> Scores | None:
    """Return the scores at a block, from the records that are not newer; None without any."""
    known = [record.statement for record in records if record.statement.block <= block]
    return scores([epoch_of(statement) for statement in known], rule) if known else None


def epoch_of(statement: EpochStatement) -> Epoch:
    """Return what a record says of each miner, by hotkey and owner in their order."""
    work: dict[tuple[str, str], Work] = {}

    def add(miner: str, coldkey: str, nano: int, good: int, void: int, lapsed: int) -> None:
        had = work.get((miner, coldkey), Work(miner, coldkey, 0, 0, 0, 0))
        work[miner, coldkey] = Work(
            miner,
            coldkey,
            had.nano + nano,
            had.good + good,
            had.void + void,
            had.lapsed + lapsed,
        )

    for entry in statement.verdicts:
        nano = entry.tokens * entry.token_nano + entry.prompt_tokens * entry.prompt_token_nano
        add(entry.miner, entry.coldkey, nano, entry.verified, entry.void, 0)
    for lapse in statement.lapses:
        add(lapse.miner, lapse.coldkey, 0, 0, 0, 1)
    convicted = {(one.miner, one.coldkey, one.epoch) for one in statement.convictions}
    return Epoch(
        statement.number,
        tuple(work[key] for key in sorted(work)),
        tuple(Convict(*key) for key in sorted(convicted)),
        statement.emission_nano,
    )
