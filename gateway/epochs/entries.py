"""What an epoch's record lists, read from the rows that settled in it."""

from collections.abc import Iterable

from sqlalchemy import literal
from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from gateway.catalog.price import Price
from gateway.orders.content import prompt_offsets
from gateway.orders.samples import ordinals
from gateway.store.engine import Store
from gateway.store.objects import Objects
from gateway.store.tables import (
    Lease,
    LeaseKind,
    LeaseState,
    Node,
    Order,
    Review,
    Transfer,
    Unit,
    Verdict,
)
from protocol.epochs import ConvictionEntry, LapseEntry, RedressEntry, VerdictEntry


async def verdict_entries(store: Store, starts_at: int, ends_at: int) -> list[VerdictEntry]:
    """Return an entry for each verdict document of the time that still stands, oldest first.

    A second opinion lists no void samples: the first one did.

    Args:
        starts_at, ends_at: Unix milliseconds, the end excluded.
    """
    statement = (
        select(Verdict, Lease, Unit, Order)
        .join(Lease, col(Lease.id) == col(Verdict.id))
        .join(Unit, col(Unit.id) == col(Verdict.unit_id))
        .join(Order, col(Order.id) == col(Verdict.order_id))
        .where(*_within(Verdict.created_at_ms, starts_at, ends_at))
        .where(col(Verdict.withdrawn_at_ms).is_(None))
        .order_by(col(Verdict.created_at_ms), col(Verdict.id))
    )
    async with store.read() as session:
        rows = (await session.exec(statement)).all()
        generated = await _generation_leases(session, [row[0].result_lease_id for row in rows])
    return [
        await _entry(store.objects, verdict, audit, generated[verdict.result_lease_id], unit, order)
        for verdict, audit, unit, order in rows
    ]


async def lapse_entries(store: Store, starts_at: int, ends_at: int) -> list[LapseEntry]:
    """Return an entry for each generation lease that ended without an answer, oldest first."""
    statement = (
        select(Lease)
        .where(
            col(Lease.kind) == LeaseKind.GENERATE,
            col(Lease.state) == LeaseState.EXPIRED,
            *_within(Lease.ended_at_ms, starts_at, ends_at),
        )
        .order_by(col(Lease.ended_at_ms), col(Lease.id))
    )
    async with store.read() as session:
        leases = (await session.exec(statement)).all()
    return [
        LapseEntry(
            lease_id=lease.id, unit_id=lease.unit_id, miner=lease.hotkey, coldkey=lease.coldkey
        )
        for lease in leases
    ]


async def conviction_entries(store: Store, epoch_ms: int, ends_at: int) -> list[ConvictionEntry]:
    """Return an entry for each miner that was convicted before ``ends_at`` and still is."""
    statement = select(Node).where(col(Node.convicted_at_ms) < ends_at).order_by(col(Node.hotkey))
    async with store.read() as session:
        nodes = (await session.exec(statement)).all()
    return [
        ConvictionEntry(
            miner=node.hotkey, coldkey=node.coldkey, epoch=(node.convicted_at_ms or 0) // epoch_ms
        )
        for node in nodes
    ]


async def redress_entries(store: Store, starts_at: int, ends_at: int) -> list[RedressEntry]:
    """Return an entry for each delivered result that was judged again in the time, oldest first."""
    statement = (
        select(Review, Transfer.amount_nano)
        .outerjoin(
            Transfer,
            col(Transfer.id) == literal("refund:") + col(Review.order_id) + ":" + col(Review.id),
        )
        .where(col(Review.delivered), *_within(Review.closed_at_ms, starts_at, ends_at))
        .order_by(col(Review.closed_at_ms), col(Review.id))
    )
    async with store.read() as session:
        rows = (await session.exec(statement)).all()
    return [
        RedressEntry(
            review_id=review.id,
            unit_id=review.unit_id,
            samples=review.failed_samples or 0,
            tokens=review.failed_tokens or 0,
            refunded_nano=refunded or 0,
        )
        for review, refunded in rows
    ]


def _within(column: object, starts_at: int, ends_at: int) -> tuple:
    return (col(column) >= starts_at, col(column) < ends_at)


async def _generation_leases(session: AsyncSession, ids: Iterable[str]) -> dict[str, Lease]:
    statement = select(Lease).where(col(Lease.id).in_(set(ids)))
    return {lease.id: lease for lease in (await session.exec(statement)).all()}


async def _entry(
    objects: Objects, verdict: Verdict, audit: Lease, generated: Lease, unit: Unit, order: Order
) -> VerdictEntry:
    price = None if order.price_json is None else Price.from_json(order.price_json)
    prompts = 0
    if verdict.newly_verified:
        whole = await _prompt_tokens(objects, unit, order)
        prompts = whole * verdict.newly_verified // unit.samples
    return VerdictEntry(
        verdict_id=verdict.id,
        document=audit.answer_sha256 or "",
        unit_id=unit.id,
        attempt=generated.attempt,
        model=order.model,
        validator=verdict.validator,
        miner=verdict.miner,
        coldkey=generated.coldkey,
        verified=verdict.newly_verified,
        void=0 if audit.review_id is not None else verdict.void,
        tokens=verdict.tokens,
        prompt_tokens=prompts,
        token_nano=0 if price is None else price.completion_token_nano,
        prompt_token_nano=0 if price is None else price.prompt_token_nano,
    )


async def _prompt_tokens(objects: Objects, unit: Unit, order: Order) -> int:
    """Return the ids of a unit's prompts, of which each sample of a line has its n-th part."""
    offsets = await prompt_offsets(objects, order.id, unit.first_line, unit.end_line)
    lengths = offsets[1:] - offsets[:-1]
    lines = ordinals(unit, order.n) // order.n - unit.first_line
    return int(lengths[lines].sum()) // order.n
