"""Which model a miner loads next: pure policy over the gateway's demand board."""

from collections.abc import Collection, Sequence

from protocol.messages import Demand, LoadedModel


def choose(
    demands: Sequence[Demand],
    loaded: LoadedModel | None,
    architectures: Collection[str],
    avoided: Collection[LoadedModel],
    may_switch: bool,
) -> LoadedModel | None:
    """Return the model that a miner should hold, or None where none waits that it can serve.

    What is loaded stays while work for it waits, since loading takes minutes; otherwise the most
    urgent demand wins.

    Args:
        demands: the board, most urgent first.
        loaded: what the engine holds.
        architectures: what this miner loads.
        avoided: models that lately failed here.
        may_switch: the loaded model has had no work for this miner for long enough.
    """
    served = [
        LoadedModel(model=demand.model, revision=demand.revision)
        for demand in demands
        if demand.waiting_samples > 0 and demand.architecture in architectures
    ]
    wanted = [model for model in served if model not in avoided]
    if loaded in wanted and not may_switch:
        return loaded
    others = [model for model in wanted if model != loaded]
    if loaded is None or may_switch:
        return others[0] if others else (loaded if loaded in wanted else None)
    return None
