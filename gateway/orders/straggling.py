"""When a second miner is given a unit that another is still at.

Near the end of an order one slow miner holds up all of it. An idle one may try the same unit then:
the draw gives both the same tokens, and the first that comes counts.
"""

from collections.abc import Sequence

from sqlalchemy.orm import aliased
from sqlmodel import col, exists, select
from sqlmodel.ext.asyncio.session import AsyncSession

from gateway.orders.nodes import LiveNode
from gateway.orders.policy import SECOND
from gateway.orders.sizes import expected_tokens
from gateway.orders.units import failures
from gateway.store.tables import (
    Lease,
    LeaseKind,
    LeaseState,
    Node,
    Order,
    OrderStatus,
    Unit,
    UnitState,
)
from protocol.messages import LoadedModel

UNITS_LOOKED_AT = 50
# Made once, for all queries.
_SECOND, _WAITING = aliased(Lease), aliased(Unit)

# No unit is given to a second miner sooner.
LEAST_SECONDS = 30.0
# A holder is overdue past so many times what its speed says.
OVERDUE = 2.0
# A second miner must be so much faster than what is left for the first.
FASTER = 1.5


def is_worth_a_second(
    elapsed: float, tokens: float, done: float, speed: float | None, own_speed: float | None
) -> bool:
    """Say whether a second miner should try a unit. Pure; times in seconds.

    Args:
        elapsed: since the first miner's lease was granted.
        tokens: expected of the unit.
        done: what the holder says it has of them. Where that is all it can gain is time until it is
            overdue, since its speed was measured.
        speed: tokens a second of the holder by what it answered; None where it never did.
        own_speed: the same of the second miner, None counts as the holder's.
    """
    if elapsed < LEAST_SECONDS:
        return False
    pace = speed or done / elapsed
    if pace == 0:
        return True
    takes = tokens / pace
    if elapsed > OVERDUE * takes:
        return True
    by_progress = elapsed * max(0.0, tokens - done) / done if done else takes
    left = max(takes - elapsed, by_progress if speed else 0.0)
    return left > FASTER * tokens / (own_speed or pace)


async def stragglers(
    session: AsyncSession, node: Node, loaded: LoadedModel, others: Sequence[LiveNode], now_ms: int
) -> list[str]:
    """Return the units that a miner may try as the second one, the oldest leases first.

    Of orders without any line or unit that nobody is at, and never what its owner failed.
    """
    first, second, waiting = Lease, _SECOND, _WAITING
    statement = (
        select(Unit, Order, first)
        .join(Order, col(Order.id) == col(Unit.order_id))
        .join(first, col(first.unit_id) == col(Unit.id))
        .where(
            col(first.state) == LeaseState.LIVE,
            col(first.kind) == LeaseKind.GENERATE,
            col(first.granted_at_ms) <= now_ms - LEAST_SECONDS * SECOND,
            col(first.hotkey) != node.hotkey,
            col(first.coldkey) != node.coldkey,
            col(Unit.state) == UnitState.LEASED,
            col(Order.status) == OrderStatus.IN_PROGRESS,
            col(Order.model) == loaded.model,
            col(Order.revision) == loaded.revision,
            col(Order.cursor_line) == col(Order.lines_usable),
            ~exists().where(
                col(second.unit_id) == col(Unit.id),
                col(second.kind) == LeaseKind.GENERATE,
                col(second.state) == LeaseState.LIVE,
                col(second.id) != col(first.id),
            ),
            ~exists().where(
                col(waiting.order_id) == col(Order.id), col(waiting.state) == UnitState.OPEN
            ),
        )
        .order_by(col(first.granted_at_ms), col(Unit.id))
        .limit(UNITS_LOOKED_AT)
    )
    speeds = {other.hotkey: other.tokens_per_second for other in others}
    return [
        unit.id
        for unit, order, lease in (await session.exec(statement)).all()
        if node.coldkey not in failures(unit)
        and is_worth_a_second(
            (now_ms - lease.granted_at_ms) / SECOND,
            unit.samples * expected_tokens(order),
            lease.tokens,
            speeds.get(lease.hotkey),
            node.tokens_per_second,
        )
    ]
