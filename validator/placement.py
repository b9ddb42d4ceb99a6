"""Which model a validator loads: what is loaded stays while it has work."""

from collections.abc import Collection

from protocol.messages import Demand, DemandBoard, LoadedModel


def choose(
    board: DemandBoard,
    loaded: LoadedModel | None,
    architectures: Collection[str],
    refused: Collection[LoadedModel],
) -> LoadedModel | None:
    """Return the model commit to hold, None where the board has nothing for this validator.

    Args:
        board: the gateway's demand board, most urgent first.
        loaded: what is loaded now.
        architectures: model classes that this validator computes.
        refused: commits that it could not load of late.
    """
    demands = [
        demand
        for demand in board.demands
        if demand.architecture in architectures and _commit(demand) not in refused
    ]
    audits = [_commit(demand) for demand in demands if demand.waiting_audits]
    # A model whose samples are still being generated is loaded ahead of its first audit.
    coming = [_commit(demand) for demand in demands if demand.waiting_samples]
    for wanted in (audits, coming):
        if loaded in wanted:
            return loaded
        if wanted:
            return wanted[0]
    return None


def _commit(demand: Demand) -> LoadedModel:
    return LoadedModel(model=demand.model, revision=demand.revision)
