"""What a decision on samples changes: the order's books, and what is generated again.

The caller holds the order's lock.
"""

from collections.abc import Sequence

from sqlalchemy import bindparam
from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from gateway.orders import units
from gateway.orders.policy import MAX_TRIES
from gateway.orders.samples import (
    MISSING,
    VERIFIED,
    complete_lines,
    ordinals,
    pack_bits,
    read_bits,
)
from gateway.store.tables import Order, OrderStatus, Unit, Verdict

_STANDING = (
    select(Verdict)
    .where(
        col(Verdict.result_lease_id) == bindparam("result_lease_id"),
        col(Verdict.withdrawn_at_ms).is_(None),
    )
    .order_by(col(Verdict.created_at_ms), col(Verdict.id))
)


async def mark(
    session: AsyncSession, order: Order, unit: Unit, places: list[int], *, verified: bool
) -> None:
    """Set or clear the bits of a unit's samples on the root unit, and count complete lines."""
    n = order.n
    root = unit if unit.parent_id is None else await session.get(Unit, unit.root_id)
    if root is None or root.verified_bits is None:
        raise LookupError(f"unit {unit.id} has no root")
    bits = read_bits(root.verified_bits, root.samples)
    before = complete_lines(bits, n)
    bits[ordinals(unit, n)[places] - root.first_line * n] = verified
    root.verified_bits = pack_bits(bits)
    order.lines_completed += complete_lines(bits, n) - before
    session.add(root)


async def standing_verdicts(session: AsyncSession, result_lease_id: str) -> Sequence[Verdict]:
    """Return the verdicts on a result that were not withdrawn, oldest first."""
    return (await session.exec(_STANDING, params={"result_lease_id": result_lease_id})).all()


async def revoke(
    session: AsyncSession,
    order: Order,
    unit: Unit,
    places: list[int],
    lengths: Sequence[int],
    letter: str,
) -> None:
    """Take back that samples are verified, from all that counted them; they are ``letter`` now."""
    await mark(session, order, unit, places, verified=False)
    order.samples_verified -= len(places)
    order.tokens_verified -= sum(lengths[place] for place in places)
    left = set(places)
    for verdict in await standing_verdicts(session, unit.result_lease_id or ""):
        counted = {place for place in left if verdict.outcomes[place] == VERIFIED}
        verdict.newly_verified -= len(counted)
        verdict.tokens -= sum(lengths[place] for place in counted)
        left -= counted
        session.add(verdict)
    _write(unit, places, letter)


def generate_again(
    session: AsyncSession, order: Order, unit: Unit, places: list[int], owner: str, now_ms: int
) -> None:
    """Put void samples into a child unit, or count them as missing where it was the last try."""
    if not places:
        return
    if unit.tries + 1 >= MAX_TRIES:
        order.samples_missing += len(places)
        _write(unit, places, MISSING)
    elif order.status == OrderStatus.IN_PROGRESS:
        session.add(units.child_unit(order, unit, places, owner, now_ms))


def _write(unit: Unit, places: list[int], letter: str) -> None:
    changed = list(unit.outcomes)
    for place in places:
        changed[place] = letter
    unit.outcomes = "".join(changed)
