"""What an audit found of an order, by miner: read from the verdict rows alone."""

from dataclasses import dataclass

from sqlmodel import col, func, select

from gateway.store.engine import Store
from gateway.store.tables import Verdict


@dataclass(frozen=True)
class MinerFigures:
    """The samples of one miner in an order, by outcome; ``tokens`` were verified of it first."""

    hotkey: str
    verified: int
    void: int
    inconclusive: int
    tokens: int


async def miner_figures(store: Store, order_id: str) -> list[MinerFigures]:
    """Return the figures of every miner that was audited for the order, by hotkey."""
    sums = (Verdict.verified, Verdict.void, Verdict.inconclusive, Verdict.tokens)
    wanted = (
        select(Verdict.miner, *(func.sum(col(column)) for column in sums))
        .where(Verdict.order_id == order_id)
        .group_by(col(Verdict.miner))
        .order_by(col(Verdict.miner))
    )
    async with store.read() as session:
        rows = (await session.exec(wanted)).all()
    return [MinerFigures(row[0], *(int(value) for value in row[1:])) for row in rows]
