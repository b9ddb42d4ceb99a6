"""The chain's rules for setting weights, in the order in which the chain applies them.

A commit is checked for little when it is made and loses its weights at the reveal without an error
where a rule is broken then, so whoever commits checks all of them beforehand.
"""

from collections.abc import Mapping

from protocol.chain.base import U16_MAX, Neuron, NotRegistered, Parameters, WeightsRefused


def check_weights(
    neuron: Neuron,
    weights: Mapping[str, int],
    version_key: int,
    neurons: Mapping[str, Neuron],
    rules: Parameters,
    updated_at_block: int,
) -> None:
    """Check all rules.

    Args:
        neuron: who sets the weights.
        weights: u16 by hotkey.
        version_key: which version of the scoring rules they follow.
        neurons: all that are registered at ``rules.block``.
        rules: the subnet's.
        updated_at_block: when this hotkey set or committed weights last, or was registered.

    Raises:
        NotRegistered: a target is not registered.
        WeightsRefused: a rule is broken.
    """
    check_stake_and_version(neuron, version_key, rules)
    check_rate(updated_at_block, rules)
    check_row(neuron, weights, neurons, rules)


def check_stake_and_version(neuron: Neuron, version_key: int, rules: Parameters) -> None:
    """Check that there is stake enough, and that the weights are of the version asked for.

    Raises:
        WeightsRefused: ``stake`` or ``version_key``.
    """
    if neuron.stake_rao < rules.min_stake_rao:
        raise WeightsRefused(
            "stake",
            f"hotkey {neuron.hotkey} holds {neuron.stake_rao} rao and needs "
            f"{rules.min_stake_rao} to set weights; add stake",
        )
    if version_key < rules.weights_version_key:
        raise WeightsRefused(
            "version_key",
            f"the subnet asks for version key {rules.weights_version_key}, these weights have "
            f"{version_key}; update the validator",
        )


def check_rate(updated_at_block: int, rules: Parameters) -> None:
    """Check that the last update is long enough ago.

    Raises:
        WeightsRefused: ``rate_limit``.
    """
    # As on the real chain: a registration counts as an update, and block 0 as none.
    wait = updated_at_block + rules.weights_rate_limit - rules.block
    if updated_at_block and wait > 0:
        raise WeightsRefused(
            "rate_limit",
            f"weights were updated at block {updated_at_block}; wait {wait} of "
            f"{rules.weights_rate_limit} blocks",
        )


def check_row(
    neuron: Neuron,
    weights: Mapping[str, int],
    neurons: Mapping[str, Neuron],
    rules: Parameters,
) -> None:
    """Check the permit, then targets, number and sizes of the weights.

    Raises:
        NotRegistered: a target is not registered.
        WeightsRefused: ``permit``, ``uids``, ``count`` or ``max_weight``.
    """
    alone = set(weights) == {neuron.hotkey}
    if not (neuron.validator_permit or alone or neuron.hotkey == rules.owner_hotkey):
        raise WeightsRefused(
            "permit", f"hotkey {neuron.hotkey} holds no validator's permit; it needs more stake"
        )
    for hotkey in weights:
        registered(neurons, hotkey)
    if not all(0 < weight <= U16_MAX for weight in weights.values()):
        raise WeightsRefused("uids", f"a weight must be from 1 to {U16_MAX}")
    needed = min(rules.min_weights, len(neurons))
    if not weights or (len(weights) < needed and not alone):
        raise WeightsRefused("count", f"the subnet asks for {needed} weights at least")
    largest, total = max(weights.values()), sum(weights.values())
    if largest * U16_MAX > rules.max_weight * total and not alone:
        raise WeightsRefused(
            "max_weight", f"a weight exceeds {rules.max_weight}/{U16_MAX} of the whole"
        )


def registered(neurons: Mapping[str, Neuron], hotkey: str) -> Neuron:
    """Return the neuron of ``hotkey``.

    Raises:
        NotRegistered: it has none.
    """
    neuron = neurons.get(hotkey)
    if neuron is None:
        raise NotRegistered(f"hotkey {hotkey} is not registered")
    return neuron
