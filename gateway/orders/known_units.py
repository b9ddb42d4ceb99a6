"""Known-answer units: made of verified samples, and judged like any other result.

Such a unit looks like a miner's fresh result to the validator that leases it: ids of its own, a
lease that the gateway signed, a result that a registered hotkey signed. The hotkeys are the
operator's. Nothing of it is delivered, counted for an order or published: it is a row beside the
units of the order whose samples it has, and its outcomes stay empty.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import structlog
from bittensor_core import Keypair
from sqlmodel import col, delete, exists, func, select
from sqlmodel.ext.asyncio.session import AsyncSession

from gateway.orders import units
from gateway.orders.content import object_key, unit_work
from gateway.orders.leases import Held, statement_of
from gateway.orders.policy import HOUR, Policy
from gateway.orders.results import put_once
from gateway.orders.rows import lock_order
from gateway.orders.samples import VERIFIED, ordinals, packed_ordinals
from gateway.orders.stored_results import sample_ids
from gateway.store.engine import Store
from gateway.store.tables import (
    KnownAnswer,
    Lease,
    LeaseKind,
    LeaseState,
    Order,
    OrderStatus,
    Review,
    ReviewState,
    Unit,
    UnitState,
    Verdict,
    new_id,
)
from protocol.documents import digest
from protocol.keys import sign_statement
from protocol.messages import LoadedModel, Result, Stack, Work
from protocol.results import make_result
from scoring.known_answers import Known, Tally, is_found_out, known_samples, tally

# An order's window must last so much longer that a validator has time for its unit.
LEFT_MS = HOUR
# How far back shares are counted.
COUNTED_MS = HOUR
_OF = (OrderStatus.IN_PROGRESS, OrderStatus.FINALIZING, OrderStatus.COMPLETED)

log = structlog.get_logger("gateway.known_units")


@dataclass(frozen=True)
class Signers:
    """Who signs known-answer units: the gateway their leases, and its probes their results."""

    gateway: Keypair
    probes: Sequence[Keypair]


async def keep_ready(
    store: Store, signers: Signers, policy: Policy, secret: bytes, now_ms: int
) -> None:
    """Let a known-answer unit wait among the results of each model commit, as often as it is due.

    Args:
        secret: fresh random bytes.
    """
    if not signers.probes or policy.known_answers == 0:
        return
    async with store.read() as session:
        due = await _due(session, policy, now_ms)
        sources = [await _source(session, loaded, now_ms) for loaded in due]
    for source in sources:
        if source is not None:
            await _make(store, signers, *source, secret, now_ms)


async def _due(session: AsyncSession, policy: Policy, now_ms: int) -> list[LoadedModel]:
    """Return the commits with results to judge, too few of which were known ones of late."""
    waiting = await _counts(session, col(Unit.state) == UnitState.SUBMITTED)
    ready = await _counts(
        session, col(Unit.state) == UnitState.SUBMITTED, col(Unit.known).is_not(None)
    )
    made = await _counts(
        session, col(Unit.created_at_ms) > now_ms - COUNTED_MS, col(Unit.known).is_not(None)
    )
    judged = await _counts(
        session,
        exists().where(
            col(Verdict.unit_id) == col(Unit.id), col(Verdict.created_at_ms) > now_ms - COUNTED_MS
        ),
    )
    return [
        LoadedModel(model=model, revision=revision)
        for (model, revision), count in waiting.items()
        if count > ready.get((model, revision), 0) == 0
        and made.get((model, revision), 0) < policy.known_answers * judged.get((model, revision), 0)
    ]


async def _counts(session: AsyncSession, *conditions: object) -> dict[tuple[str, str], int]:
    statement = (
        select(Order.model, Order.revision, func.count())
        .join(Unit, col(Unit.order_id) == col(Order.id))
        .where(*conditions)  # pyright: ignore[reportArgumentType]
        .group_by(col(Order.model), col(Order.revision))
    )
    return {(model, revision): n for model, revision, n in (await session.exec(statement)).all()}


async def _source(
    session: AsyncSession, loaded: LoadedModel, now_ms: int
) -> tuple[Order, Unit, Lease] | None:
    """Return the latest unit with verified samples that no known-answer unit was made of yet."""
    made = exists().where(col(Unit.source_lease_id) == col(Lease.id)).correlate(Lease)
    open_ = exists().where(
        col(Review.result_lease_id) == col(Lease.id), col(Review.state) != ReviewState.CLOSED
    )
    statement = (
        select(Order, Unit, Lease)
        .join(Unit, col(Unit.order_id) == col(Order.id))
        .join(Lease, col(Lease.id) == col(Unit.result_lease_id))
        .where(
            col(Order.model) == loaded.model,
            col(Order.revision) == loaded.revision,
            col(Order.status).in_(_OF),
            col(Order.expires_at_ms) > now_ms + LEFT_MS,
            col(Unit.state) == UnitState.CLOSED,
            col(Unit.outcomes).contains(VERIFIED),
            ~made,
            ~open_,
        )
        .order_by(col(Unit.closed_at_ms).desc(), col(Unit.id))
        .limit(1)
    )
    row = (await session.exec(statement)).first()
    return None if row is None else (row[0], row[1], row[2])


async def _make(
    store: Store,
    signers: Signers,
    order: Order,
    source: Unit,
    origin: Lease,
    secret: bytes,
    now_ms: int,
) -> None:
    places = [place for place, letter in enumerate(source.outcomes) if letter == VERIFIED]
    claimed = await asyncio.to_thread(sample_ids, await store.objects.get(origin.object_key or ""))
    known = known_samples([claimed[place] for place in places], secret)
    unit = _unit(order, source, origin, places, known, now_ms)
    probe = signers.probes[int.from_bytes(secret[:8], "big") % len(signers.probes)]
    lease = _lease(unit, origin, probe, known, now_ms)
    work = await unit_work(store.objects, order, unit)
    lease.signature = sign_statement(signers.gateway, statement_of(lease, work))
    content = await asyncio.to_thread(_result, probe, lease, work, known)
    lease.root = content.root
    lease.object_key = object_key(order.id, f"results/{lease.id}-{content.root[:16]}.json")
    await put_once(store.objects, lease.object_key, content.model_dump_json().encode())
    async with store.write() as session:
        await lock_order(session, order.id)
        session.add(unit)
        await session.flush()
        session.add(lease)


def _unit(
    order: Order,
    source: Unit,
    origin: Lease,
    places: Sequence[int],
    known: Sequence[Known],
    now_ms: int,
) -> Unit:
    held = ordinals(source, order.n)[list(places)]
    return Unit(
        order_id=order.id,
        root_id=source.root_id,
        parent_id=source.id,
        first_line=int(held[0]) // order.n,
        end_line=int(held[-1]) // order.n + 1,
        ordinals=packed_ordinals(held),
        samples=len(known),
        state=UnitState.SUBMITTED,
        attempt=origin.attempt,
        outcomes="",
        known="".join(sample.letter for sample in known),
        source_lease_id=origin.id,
        result_lease_id=new_id(),
        created_at_ms=now_ms,
        offered_at_ms=now_ms,
        submitted_at_ms=now_ms,
    )


def _lease(unit: Unit, origin: Lease, probe: Keypair, known: Sequence[Known], now_ms: int) -> Lease:
    # As long under way as the real one was.
    granted_at_ms = now_ms - ((origin.ended_at_ms or now_ms) - origin.granted_at_ms)
    return Lease(
        id=unit.result_lease_id or "",
        unit_id=unit.id,
        order_id=unit.order_id,
        kind=LeaseKind.GENERATE,
        hotkey=probe.ss58_address,
        coldkey=probe.ss58_address,
        attempt=unit.attempt,
        state=LeaseState.ANSWERED,
        granted_at_ms=granted_at_ms,
        expires_at_ms=now_ms,
        ends_at_ms=now_ms,
        progress_at_ms=now_ms,
        ended_at_ms=now_ms,
        tokens=sum(len(sample.ids) for sample in known),
        stack_json=origin.stack_json,
    )


def _result(probe: Keypair, lease: Lease, work: Work, known: Sequence[Known]) -> Result:
    """Return the samples as a miner hands its own in."""
    samples = [sample.ids for sample in known]
    stack = Stack.model_validate_json(lease.stack_json or "")
    terms = digest(statement_of(lease, work)).hex()
    return make_result(probe, work, lease.attempt, terms, stack, samples)


async def judged(session: AsyncSession, held: Held, letters: str, now_ms: int) -> frozenset[str]:
    """Note how a validator judged a known-answer unit, which ends it.

    The caller holds the order's lock.

    Returns:
        The validator's owner, where that is found out.
    """
    owner = held.lease.coldkey
    found = tally(held.unit.known or "", letters)
    units.close(held.unit, now_ms)
    held.save(session)
    session.add(
        KnownAnswer(
            id=held.lease.id,
            owner=owner,
            void=found.void,
            void_passed=found.void_passed,
            verified=found.verified,
            verified_failed=found.verified_failed,
            created_at_ms=now_ms,
        )
    )
    await session.flush()
    sums = select(
        func.sum(KnownAnswer.void),
        func.sum(KnownAnswer.void_passed),
        func.sum(KnownAnswer.verified),
        func.sum(KnownAnswer.verified_failed),
    ).where(col(KnownAnswer.owner) == owner)
    row = (await session.exec(sums)).one()
    if not is_found_out(Tally(*(int(count or 0) for count in row))):
        return frozenset()
    await session.exec(delete(KnownAnswer).where(col(KnownAnswer.owner) == owner))
    log.warning("a validator's owner judges without looking", owner=owner)
    return frozenset((owner,))
