"""Writing the record of each epoch once nothing in it changes any more."""

import structlog
from bittensor_core import Keypair
from sqlalchemy.exc import IntegrityError
from sqlmodel import col, func, select

from gateway.epochs.entries import (
    conviction_entries,
    lapse_entries,
    redress_entries,
    verdict_entries,
)
from gateway.orders.policy import Policy
from gateway.orders.results import put_once
from gateway.store.engine import Store
from gateway.store.tables import Epoch, Lease, Review, ReviewState
from protocol.chain.base import Chain
from protocol.epochs import EpochRecord, EpochStatement, signed_record
from scoring.pay import PayRule

log = structlog.get_logger("gateway.epochs")

# Older ones say nothing of scores: a gateway that was away for longer leaves them out.
MOST_BEHIND = PayRule().window


async def write_due(
    store: Store,
    chain: Chain,
    keypair: Keypair,
    policy: Policy,
    now_ms: int,
) -> None:
    """Write the records of all epochs that are over and whose reviews are closed, oldest first.

    Args:
        chain: its head goes into the records.
        keypair: the gateway's hotkey.
        now_ms: Unix milliseconds.
    """
    epoch_ms = policy.epoch_ms
    newest = now_ms // epoch_ms - 1
    last = await newest_epoch(store)
    begun = await _first_epoch(store, epoch_ms, newest) if last is None else last.number + 1
    number = max(begun, newest - MOST_BEHIND + 1)
    while number <= newest:
        if await _has_open_review(store, (number + 1) * epoch_ms):
            return
        last = await _write(store, chain, keypair, number, policy, last, now_ms)
        if last is None:
            return
        number += 1


async def newest_epoch(store: Store) -> Epoch | None:
    """Return the row of the newest record."""
    statement = select(Epoch).order_by(col(Epoch.number).desc()).limit(1)
    async with store.read() as session:
        return (await session.exec(statement)).one_or_none()


async def _first_epoch(store: Store, epoch_ms: int, newest: int) -> int:
    """Return the epoch in which the first lease of all was granted; the newest without any."""
    async with store.read() as session:
        granted_at_ms = (await session.exec(select(func.min(Lease.granted_at_ms)))).one()
    return newest if granted_at_ms is None else granted_at_ms // epoch_ms


async def _has_open_review(store: Store, before_ms: int) -> bool:
    # What is judged again after its delivery changes no entry, however long it waits.
    statement = select(Review.id).where(
        col(Review.state) != ReviewState.CLOSED,
        col(Review.created_at_ms) < before_ms,
        ~col(Review.delivered),
    )
    async with store.read() as session:
        return (await session.exec(statement.limit(1))).first() is not None


async def _write(
    store: Store,
    chain: Chain,
    keypair: Keypair,
    number: int,
    policy: Policy,
    last: Epoch | None,
    now_ms: int,
) -> Epoch | None:
    """Write one record; return its row, or None where another gateway was faster."""
    span = (number * policy.epoch_ms, (number + 1) * policy.epoch_ms)
    head = await chain.head()
    statement = EpochStatement(
        number=number,
        starts_at=span[0],
        ends_at=span[1],
        block=head.block,
        block_hash=head.block_hash,
        previous=None if last is None else last.digest,
        emission_nano=policy.emission_nano,
        verdicts=await verdict_entries(store, *span),
        lapses=await lapse_entries(store, *span),
        convictions=await conviction_entries(store, policy.epoch_ms, span[1]),
        redress=await redress_entries(store, *span),
    )
    record = signed_record(keypair, statement)
    row = await _store(store, record, now_ms)
    if row is not None and (statement.verdicts or statement.lapses or statement.convictions):
        log.info("epoch recorded", epoch=number, verdicts=len(statement.verdicts))
    return row


async def _store(store: Store, record: EpochRecord, now_ms: int) -> Epoch | None:
    content, number = record.encoded(), record.statement.number
    row = Epoch(
        number=number,
        digest=record.digest,
        block=record.statement.block,
        object_key=f"epochs/{number}-{record.digest[:16]}.json",
        bytes=len(content),
        created_at_ms=now_ms,
    )
    await put_once(store.objects, row.object_key, content)
    try:
        async with store.write() as session:
            session.add(row)
    except IntegrityError:
        return None
    return row
