"""What is read of a subnet of the Bittensor network at one block, as the roles' own values."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bittensor._substrate import RpcSubstrate

from protocol.chain.base import ChainError, Head, Neuron, Parameters, Snapshot, StaleHead

# A head older than this is a node that lost its peers.
STALE_SECONDS = 180.0

PALLET = "SubtensorModule"
# What the client itself reads when it sets weights, and fails for where a runtime lacks it.
_NEEDED = (
    "Uids",
    "LastUpdate",
    "Weights",
    "WeightsSetRateLimit",
    "CommitRevealWeightsEnabled",
    "MinAllowedWeights",
    "MaxWeightsLimit",
    "Tempo",
    "RevealPeriodEpochs",
    "LastEpochBlock",
    "PendingEpochAt",
    "SubnetEpochIndex",
    "BlocksSinceLastStep",
    "StakeThreshold",
)
_NEEDED_CALLS = ("set_mechanism_weights", "commit_timelocked_mechanism_weights")


@dataclass(frozen=True)
class SubnetState:
    """The subnet at one block.

    Attributes:
        snapshot: its neurons.
        parameters: its rules.
        updated_at: by hotkey, the block at which weights were set or committed last.
    """

    snapshot: Snapshot
    parameters: Parameters
    updated_at: Mapping[str, int]


async def read_head(node: RpcSubstrate, now: float) -> Head:
    """Return the newest finalized block.

    Args:
        node: an open connection.
        now: seconds since the epoch.

    Raises:
        StaleHead: the block is too old to act on.
    """
    block_hash = await node.raw.get_chain_finalised_head()
    block = await node.raw.get_block_number(block_hash)
    age = now - int(await node.query("Timestamp", "Now", [], block_hash)) / 1000
    if age > STALE_SECONDS:
        raise StaleHead(
            f"the chain's node is stuck: its newest block, {block}, is {age:.0f} s old; use "
            "another node, or set this machine's clock"
        )
    return Head(block, block_hash.removeprefix("0x"))


async def query(node: RpcSubstrate, at: Head, pallet: str, item: str, keys: list[Any]) -> Any:
    """Return one value of the chain's storage at a block."""
    return await node.query(pallet, item, keys, "0x" + at.block_hash)


async def read_subnet(node: RpcSubstrate, netuid: int, at: Head) -> SubnetState:
    """Return the neurons and rules of a subnet at one block.

    Raises:
        ChainError: there is no such subnet.
        KeyError: the runtime leaves a value out.
        ValueError: the runtime lacks a value, or its lists do not belong together.
    """
    graph = await node.runtime_call(
        "SubnetInfoRuntimeApi", "get_metagraph", [netuid], "0x" + at.block_hash
    )
    if graph is None:
        raise ChainError(f"there is no subnet {netuid} on this network")
    neurons = _neurons(graph)
    last_update = zip(neurons, graph["last_update"], strict=True)
    return SubnetState(
        Snapshot(at.block, at.block_hash, {neuron.hotkey: neuron for neuron in neurons}),
        Parameters(
            block=at.block,
            tempo=int(graph["tempo"]),
            epoch=int(await query(node, at, PALLET, "SubnetEpochIndex", [netuid])),
            epoch_block=int(await query(node, at, PALLET, "LastEpochBlock", [netuid])),
            weights_rate_limit=int(graph["weights_rate_limit"]),
            weights_version_key=int(graph["weights_version"]),
            min_stake_rao=int(await query(node, at, PALLET, "StakeThreshold", [])),
            commit_reveal=bool(graph["commit_reveal_weights_enabled"]),
            reveal_period_epochs=int(graph["commit_reveal_period"]),
            immunity_blocks=int(graph["immunity_period"]),
            min_weights=int(graph["min_allowed_weights"]),
            max_weight=int(graph["max_weights_limit"]),
            max_uids=int(graph["max_uids"]),
            owner_hotkey=str(graph["owner_hotkey"]),
        ),
        {neuron.hotkey: int(block) for neuron, block in last_update},
    )


async def check_runtime(node: RpcSubstrate) -> None:
    """Check that the chain's runtime has what setting weights needs.

    Raises:
        ChainError: it has not; the message names what is missing.
    """
    metadata = await node.raw.metadata_ir()
    pallet = next((pallet for pallet in metadata.pallets if pallet.name == PALLET), None)
    items = {item.name for item in pallet.storage} if pallet else set[str]()
    calls = {call.name for call in pallet.calls} if pallet else set[str]()
    missing = [name for name in _NEEDED if name not in items]
    missing += [name for name in _NEEDED_CALLS if name not in calls]
    if missing:
        raise ChainError(
            f"the chain's runtime {metadata.spec_version} lacks {', '.join(missing)} of {PALLET}; "
            "update this program to a release made for it"
        )


def _neurons(graph: Mapping[str, Any]) -> list[Neuron]:
    columns = ("hotkeys", "coldkeys", "block_at_registration", "total_stake", "validator_permit")
    rows = zip(*(graph[name] for name in columns), strict=True)
    return [
        Neuron(str(hotkey), str(coldkey), uid, int(block), int(stake), bool(permit))
        for uid, (hotkey, coldkey, block, stake, permit) in enumerate(rows)
    ]
