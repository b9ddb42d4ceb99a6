"""What the demand board offers a validator."""

from collections.abc import Collection

from protocol.messages import DemandBoard, LoadedModel
from protocol.placement import Offer


def offers(
    board: DemandBoard, architectures: Collection[str], refused: Collection[LoadedModel]
) -> list[Offer]:
    """Return the work that a validator could do: what waits, and what is being generated.

    Args:
        architectures: model classes that it computes.
        refused: commits that it could not load of late.
    """
    return [
        Offer(
            model=demand.commit,
            ready=max(demand.audit_tokens, demand.waiting_audits),
            # Loaded ahead of the first audit.
            coming=max(demand.waiting_tokens, demand.waiting_samples) + demand.leased_tokens,
            holders=demand.validators,
            deadline=demand.deadline,
        )
        for demand in board.demands
        if demand.architecture in architectures and demand.commit not in refused
    ]
