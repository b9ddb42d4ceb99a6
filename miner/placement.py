"""What the demand board offers a miner."""

from collections.abc import Collection

from protocol.messages import DemandBoard, LoadedModel
from protocol.placement import Offer


def offers(
    board: DemandBoard, architectures: Collection[str], avoided: Collection[LoadedModel]
) -> list[Offer]:
    """Return the work that a miner could do.

    Args:
        architectures: what it loads.
        avoided: models that lately failed here.
    """
    return [
        Offer(
            model=demand.commit,
            # A gateway may count no tokens; then samples tell.
            ready=max(demand.waiting_tokens, demand.waiting_samples),
            coming=0,
            holders=demand.miners,
            deadline=demand.deadline,
        )
        for demand in board.demands
        if demand.architecture in architectures and demand.commit not in avoided
    ]
