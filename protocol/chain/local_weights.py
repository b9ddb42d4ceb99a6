"""A ``LocalChain``'s weights: the rules under which they are taken, kept, revealed and counted."""

import json
import sqlite3
from collections.abc import Mapping

from protocol.chain.base import (
    U16_MAX,
    Neuron,
    NotRegistered,
    Parameters,
    Submission,
    WeightRow,
    WeightsRefused,
)
from protocol.chain.local_file import neurons_now
from protocol.chain.rules import (
    check_rate,
    check_row,
    check_stake_and_version,
    check_weights,
    registered,
)
from protocol.chain.weights import counted


def submit(
    connection: sqlite3.Connection,
    hotkey: str,
    weights: Mapping[str, int],
    version_key: int,
    rules: Parameters,
) -> Submission:
    """Set the weights of ``hotkey`` at ``rules.block`` or, under commit-reveal, commit them.

    As on the real chain a commit is checked for registration and rate limit alone; the other rules
    are applied at its reveal, where breaking one loses the weights without an error.

    Raises:
        NotRegistered: ``hotkey`` or a target is not registered.
        WeightsRefused: a rule is broken.
    """
    neurons = neurons_now(connection)
    neuron = registered(neurons, hotkey)
    row = json.dumps(dict(sorted(weights.items())))
    if rules.commit_reveal:
        check_rate(_row(connection, neuron)[0], rules)
        connection.execute(
            "INSERT INTO weight_commit (hotkey, committed_at_block, reveal_block, version_key,"
            " weights) VALUES (?, ?, ?, ?, ?)",
            (hotkey, rules.block, rules.reveal_block, version_key, row),
        )
        connection.execute(
            "INSERT INTO weight_row VALUES (?, ?, NULL, '{}') ON CONFLICT (hotkey) DO UPDATE"
            " SET updated_at_block = excluded.updated_at_block",
            (hotkey, rules.block),
        )
        return Submission(rules.block, rules.reveal_block)
    check_weights(neuron, weights, version_key, neurons, rules, _row(connection, neuron)[0])
    connection.execute(
        "INSERT OR REPLACE INTO weight_row VALUES (?, ?, ?, ?)",
        (hotkey, rules.block, rules.block, row),
    )
    return Submission(rules.block, None)


def check_submission(
    connection: sqlite3.Connection,
    hotkey: str,
    weights: Mapping[str, int],
    version_key: int,
    rules: Parameters,
) -> None:
    """Check every rule that weights would be judged by now, those of a reveal too.

    Raises:
        NotRegistered: ``hotkey`` or a target is not registered.
        WeightsRefused: a rule is broken.
    """
    neurons = neurons_now(connection)
    neuron = registered(neurons, hotkey)
    check_weights(neuron, weights, version_key, neurons, rules, _row(connection, neuron)[0])


def reveal_due(connection: sqlite3.Connection, rules: Parameters) -> None:
    """Apply every commit whose reveal has come, in the order of the commits.

    To be called before anything else of the subnet changes, so that each is judged by the subnet
    as it was at its reveal.
    """
    due = connection.execute(
        "SELECT id, hotkey, committed_at_block, version_key, weights FROM weight_commit"
        " WHERE reveal_block <= ? ORDER BY id",
        (rules.block,),
    ).fetchall()
    neurons = neurons_now(connection) if due else {}
    for number, hotkey, committed_at, version_key, row in due:
        connection.execute("DELETE FROM weight_commit WHERE id = ?", (number,))
        # Whoever has left takes its own part along, not the others'.
        weights = {key: weight for key, weight in json.loads(row).items() if key in neurons}
        try:
            neuron = registered(neurons, hotkey)
            check_stake_and_version(neuron, version_key, rules)
            check_row(neuron, weights, neurons, rules)
        except (NotRegistered, WeightsRefused):
            continue
        connection.execute(
            "UPDATE weight_row SET weights = ?, set_at_block = ? WHERE hotkey = ?",
            (json.dumps(weights), committed_at, hotkey),
        )


def weight_row(connection: sqlite3.Connection, hotkey: str, block: int) -> WeightRow:
    """Return the weights of ``hotkey`` that count.

    Raises:
        NotRegistered: it is not registered.
    """
    neurons = neurons_now(connection)
    neuron = registered(neurons, hotkey)
    updated_at, set_at, weights = _row(connection, neuron)
    counting = {} if set_at is None else counted(weights, neurons, set_at)
    return WeightRow(block, updated_at, counting)


def prune_candidate(connection: sqlite3.Connection, rules: Parameters) -> Neuron | None:
    """Return who makes room for a newcomer: the least weighted of those past their immunity.

    The owner and whoever holds a permit stay. Of several the one registered first goes.
    """
    neurons = neurons_now(connection)
    received = dict.fromkeys(neurons, 0)
    for validator in neurons.values():
        _, set_at, weights = _row(connection, validator)
        counting = {} if set_at is None else counted(weights, neurons, set_at)
        total = sum(counting.values())
        for hotkey, weight in counting.items():
            received[hotkey] += weight * U16_MAX // total
    candidates = [
        neuron
        for neuron in neurons.values()
        if not neuron.validator_permit
        and neuron.hotkey != rules.owner_hotkey
        and rules.block - neuron.registered_at_block >= rules.immunity_blocks
    ]
    return min(
        candidates,
        key=lambda neuron: (received[neuron.hotkey], neuron.registered_at_block, neuron.uid),
        default=None,
    )


def _row(
    connection: sqlite3.Connection, neuron: Neuron
) -> tuple[int, int | None, Mapping[str, int]]:
    """When it was updated, when it was set, and u16 by hotkey."""
    found = connection.execute(
        "SELECT updated_at_block, set_at_block, weights FROM weight_row WHERE hotkey = ?",
        (neuron.hotkey,),
    ).fetchone()
    if found is None:
        return neuron.registered_at_block, None, {}
    return found[0], found[1], json.loads(found[2])
