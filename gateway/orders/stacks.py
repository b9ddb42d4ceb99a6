"""Who goes first with a model by its stack: miners whose honest margins were measured.

Where a model has measured stacks, a miner that declares another one could hide in the wider bounds
that are assumed for it. So it waits while miners of measured stacks do the work, but never so long
that they could keep an order from everybody else.
"""

from collections.abc import Sequence

from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from gateway.orders.nodes import AnyNode, holding, stack_of
from gateway.orders.policy import HOUR
from gateway.store.tables import Lease, LeaseKind, LeaseState, Node, Order
from protocol.messages import LoadedModel
from scoring.published import is_measured

# A miner is at work on a model commit that answered a lease of it within this.
AT_WORK_MS = HOUR


def is_measured_miner(node: AnyNode, model: str, validators: Sequence[AnyNode]) -> bool:
    """Say whether a miner's stack was measured before that of one of the validators."""
    # Nodes are many, their stacks few.
    others = {validator.stack_json: validator for validator in validators}.values()
    return any(is_measured(model, stack_of(node), stack_of(validator)) for validator in others)


async def yields(
    session: AsyncSession,
    node: Node,
    loaded: LoadedModel,
    others: Sequence[AnyNode],
    validators: Sequence[AnyNode],
    now_ms: int,
) -> bool:
    """Say whether a miner lets others go first with the model commit that it has loaded.

    Args:
        others: the live miners besides it.
        validators: the live ones that are believed.
    """
    if is_measured_miner(node, loaded.model, validators):
        return False
    holders = holding(others, loaded)
    stacks = {
        stack_json
        for stack_json, other in {holder.stack_json: holder for holder in holders}.items()
        if is_measured_miner(other, loaded.model, validators)
    }
    measured = [holder.hotkey for holder in holders if holder.stack_json in stacks]
    if not measured:
        return False
    statement = (
        select(Lease.id)
        .join(Order, col(Order.id) == col(Lease.order_id))
        .where(
            col(Lease.hotkey).in_(measured),
            col(Lease.ended_at_ms) > now_ms - AT_WORK_MS,
            col(Lease.kind) == LeaseKind.GENERATE,
            col(Lease.state) == LeaseState.ANSWERED,
            col(Order.model) == loaded.model,
            col(Order.revision) == loaded.revision,
        )
        .limit(1)
    )
    return (await session.exec(statement)).first() is not None
