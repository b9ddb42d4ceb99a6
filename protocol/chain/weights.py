"""Weights as a chain takes them: u16 by hotkey, the largest 65,535, in integers throughout.

Every validator computes these from the same scores and must end with the same bytes, so nothing
here is a float and nothing depends on an order.
"""

from collections.abc import Collection, Mapping

from protocol.chain.base import (
    U16_MAX,
    ChainError,
    Neuron,
    Snapshot,
    WeightRow,
    WeightsRefused,
)

# Shares are cut at a largest one in these steps, so that small integer scores can be cut finely.
_SCALE = 1 << 32


class NothingToBurnTo(ChainError):
    """A part of the emission is to be burnt, and the burning hotkey is not registered."""


def to_weights(
    scores: Mapping[str, int],
    burnt: int,
    burn_to: str | None,
    registered: Collection[str],
    max_weight: int = U16_MAX,
) -> dict[str, int]:
    """Turn scores into weights; what nobody earned, or nobody who is registered, is burnt.

    Args:
        scores: what each hotkey earned, at least 0, in any unit.
        burnt: the score of nobody, in the same unit; with the scores it makes up the emission.
        burn_to: the hotkey whose emission the chain burns, the subnet owner's.
        registered: the hotkeys that can be given weight.
        max_weight: largest share of one entry, of 65,535; what exceeds it is spread over the rest.

    Returns:
        u16 by hotkey in the order of the hotkeys, without zeros, the largest 65,535, each rounded
        down. Empty where there is nothing to give.

    Raises:
        NothingToBurnTo: something is to be burnt, and ``burn_to`` is not registered.
        WeightsRefused: there are too few hotkeys for ``max_weight``.
        ValueError: a score is negative.
    """
    if burnt < 0 or any(score < 0 for score in scores.values()):
        raise ValueError("scores must not be negative")
    shares = {key: score for key, score in scores.items() if score and key in registered}
    burnt += sum(scores.values()) - sum(shares.values())
    if burnt:
        if burn_to is None or burn_to not in registered:
            raise NothingToBurnTo(
                "a part of the emission is to be burnt, but the subnet owner's hotkey "
                f"({burn_to or 'none is known'}) is not registered; register it"
            )
        shares[burn_to] = shares.get(burn_to, 0) + burnt
    return _u16(dict(sorted(shares.items())), max_weight)


def counted(
    weights: Mapping[str, int], neurons: Mapping[str, Neuron], updated_at_block: int
) -> dict[str, int]:
    """Return those of a validator's weights that count: of hotkeys older than the weights.

    A hotkey that left and came back since is a newcomer, as is one that took a freed UID over.

    Args:
        weights: u16 by hotkey, as they were set.
        neurons: who is registered now.
        updated_at_block: when the weights were set.
    """
    return {
        hotkey: weight
        for hotkey, weight in sorted(weights.items())
        if (neuron := neurons.get(hotkey)) and neuron.registered_at_block < updated_at_block
    }


def is_applied(row: WeightRow, wanted: Mapping[str, int], snapshot: Snapshot, block: int) -> bool:
    """Say whether weights that were submitted at ``block`` are those that count now.

    Args:
        row: what was read back.
        wanted: what was submitted.
        snapshot: who is registered at the block of ``row``; whoever has left since cannot be
            expected in it.
        block: where the chain included them.
    """
    expected = counted(wanted, snapshot.neurons, block)
    return row.updated_at_block >= block and dict(row.weights) == expected


def _u16(shares: Mapping[str, int], max_weight: int) -> dict[str, int]:
    if not shares:
        return {}
    if len(shares) * max_weight < U16_MAX:
        raise WeightsRefused(
            "max_weight",
            f"{len(shares)} hotkeys cannot share a whole of which each may have "
            f"{max_weight}/{U16_MAX}; the chain needs {-(-U16_MAX // max_weight)} of them",
        )
    limit = max(shares.values())
    weights = _upscaled(shares, limit)
    if not _exceeds(weights, max_weight):
        return weights
    # The largest common cap that fits, rounding included, found by halving.
    scaled = {key: share * _SCALE for key, share in shares.items()}
    low, high = min(scaled.values()), limit * _SCALE
    while low < high:
        middle = (low + high + 1) // 2
        if _exceeds(_upscaled(scaled, middle), max_weight):
            high = middle - 1
        else:
            low = middle
    return _upscaled(scaled, low)


def _upscaled(shares: Mapping[str, int], cap: int) -> dict[str, int]:
    weights = {key: min(share, cap) * U16_MAX // cap for key, share in shares.items()}
    return {key: weight for key, weight in weights.items() if weight}


def _exceeds(weights: Mapping[str, int], max_weight: int) -> bool:
    """Say whether the chain would find the largest share above the limit."""
    return max(weights.values()) * U16_MAX > max_weight * sum(weights.values())
