"""``BittensorChain``: a subnet of the Bittensor network. The only place that uses its client.

Everything is read at the newest *finalized* block, which no reorganization takes back. Reads of
several values are of one block. Every call ends within a bounded time.
"""

from collections.abc import Callable, Mapping
from typing import Any

from bittensor import ChainError as Refusal
from bittensor import SetWeights
from bittensor._generated.calls import Commitments
from bittensor._substrate import RpcSubstrate
from bittensor.client import Client
from bittensor.error_map import ErrorCode
from bittensor.result import ExtrinsicResult
from bittensor_core import Keypair

from protocol.chain.base import (
    ChainError,
    Head,
    NotRegistered,
    Parameters,
    Rule,
    Snapshot,
    Submission,
    WeightRow,
    WeightsRefused,
)
from protocol.chain.bittensor_link import Link
from protocol.chain.bittensor_subnet import (
    PALLET,
    SubnetState,
    check_runtime,
    query,
    read_head,
    read_subnet,
)
from protocol.chain.endpoint import checked_endpoint
from protocol.chain.rules import check_weights, registered
from protocol.chain.weights import counted

READ_SECONDS = 30.0
# Inclusion and finality take some blocks.
SUBMIT_SECONDS = 150.0
# Blocks for which a signed submission can be included.
ERA_BLOCKS = 64
RETRIES = 2

_RULES: Mapping[str, Rule] = {
    "NotEnoughStakeToSetWeights": "stake",
    "IncorrectWeightVersionKey": "version_key",
    "SettingWeightsTooFast": "rate_limit",
    "CommittingWeightsTooFast": "rate_limit",
    "NeuronNoValidatorPermit": "permit",
    "DuplicateUids": "uids",
    "UidVecContainInvalidOne": "uids",
    "UidsLengthExceedUidsInSubNet": "uids",
    "WeightVecLengthIsLow": "count",
    "MaxWeightExceeded": "max_weight",
}


class BittensorChain:
    """One subnet of a Bittensor network.

    Args:
        network: ``finney``, ``test``, ``local``, or a ``ws://`` or ``wss://`` address.
        netuid: the subnet's number.
        clock: seconds since the epoch; a head much older is not acted on.
        read_seconds: within which a read ends.
        submit_seconds: within which a submission ends, finality included.

    Raises:
        ChainError: there is no such network.
    """

    def __init__(
        self,
        network: str,
        netuid: int,
        clock: Callable[[], float],
        read_seconds: float = READ_SECONDS,
        submit_seconds: float = SUBMIT_SECONDS,
    ) -> None:
        self._netuid = netuid
        self._clock = clock
        self._read_seconds = read_seconds
        self._submit_seconds = submit_seconds
        self._link = Link(network)
        self._latest: SubnetState | None = None

    async def check(self) -> None:
        """Check that the chain's runtime has what setting weights needs.

        Raises:
            ChainError: it has not, or the node does not answer.
        """

        async def read(_: Client, node: RpcSubstrate) -> None:
            await check_runtime(node)
            await self._now(node)

        await self._link.use("check the chain's runtime", read, self._read_seconds)

    async def head(self) -> Head:
        """Return the newest finalized block.

        Raises:
            StaleHead: it is too old.
            ChainError: the node cannot be reached or does not answer.
        """

        async def read(_: Client, node: RpcSubstrate) -> Head:
            return await self._head(node)

        return await self._link.use("read the head", read, self._read_seconds)

    async def block_hash(self, block: int) -> str:
        """Return the hash of a block that is not newer than the head.

        Raises:
            ChainError: there is no such block yet, or the node does not answer.
        """

        async def read(_: Client, node: RpcSubstrate) -> str:
            return (await self._at(node, block)).block_hash

        return await self._link.use("read a block's hash", read, self._read_seconds)

    async def snapshot(self, block: int | None = None) -> Snapshot:
        """Return all neurons at a block, the newest finalized one where none is named.

        Raises:
            StaleHead: the newest block is too old.
            ChainError: the node does not answer, or no longer knows the block's state.
        """

        async def read(_: Client, node: RpcSubstrate) -> Snapshot:
            if block is None:
                return (await self._now(node)).snapshot
            return (await read_subnet(node, self._netuid, await self._at(node, block))).snapshot

        return await self._link.use("read the subnet's neurons", read, self._read_seconds)

    async def parameters(self) -> Parameters:
        """Return the subnet's rules at the newest finalized block.

        Raises:
            StaleHead: that block is too old.
            ChainError: the node does not answer, or its runtime is another than expected.
        """

        async def read(_: Client, node: RpcSubstrate) -> Parameters:
            return (await self._now(node)).parameters

        return await self._link.use("read the subnet's rules", read, self._read_seconds)

    async def set_weights(
        self, keypair: Keypair, weights: Mapping[str, int], version_key: int
    ) -> Submission:
        """Set or, as the subnet asks for, commit weights, and wait for their finality.

        All rules are checked at one block just before: a commit's are otherwise checked at its
        reveal, where breaking one loses the weights without an error.

        Raises:
            NotRegistered: the signer or a target is not registered.
            WeightsRefused: a rule of the chain forbids it.
            ChainError: the node does not answer; whether it took the weights is not known then,
                and ``weight_row`` tells it later.
        """

        async def submit(client: Client, node: RpcSubstrate) -> Submission:
            subnet = await self._now(node)
            neurons, rules = subnet.snapshot.neurons, subnet.parameters
            neuron = registered(neurons, keypair.ss58_address)
            updated_at = subnet.updated_at[neuron.hotkey]
            check_weights(neuron, weights, version_key, neurons, rules, updated_at)
            intent = SetWeights(
                netuid=self._netuid,
                weights=[float(weight) for weight in weights.values()],
                uids=[neurons[hotkey].uid for hotkey in weights],
                version_key=version_key,
            )
            try:
                result = await client.execute(intent, keypair, period=ERA_BLOCKS, retries=RETRIES)
            except Refusal as error:
                _raise_known(error)
                raise
            block = _included_at(result)
            return Submission(block, rules.reveal_block if rules.commit_reveal else None)

        return await self._link.use("set weights", submit, self._submit_seconds)

    async def weight_row(self, hotkey: str) -> WeightRow:
        """Return the weights of one validator as they count at the newest finalized block.

        Raises:
            NotRegistered: it is not registered.
            ChainError: the node does not answer.
        """

        async def read(_: Client, node: RpcSubstrate) -> WeightRow:
            subnet = await self._now(node)
            neurons = subnet.snapshot.neurons
            uid = registered(neurons, hotkey).uid
            head = Head(subnet.snapshot.block, subnet.snapshot.block_hash)
            row = await query(node, head, PALLET, "Weights", [self._netuid, uid])
            by_uid = {neuron.uid: neuron.hotkey for neuron in neurons.values()}
            weights = {by_uid[uid]: int(weight) for uid, weight in row or [] if uid in by_uid}
            updated_at = subnet.updated_at[hotkey]
            return WeightRow(head.block, updated_at, counted(weights, neurons, updated_at))

        return await self._link.use("read weights", read, self._read_seconds)

    async def publish_endpoint(self, keypair: Keypair, url: str) -> None:
        """Write where a registered hotkey is reached into its commitment, and wait for finality.

        Raises:
            NotRegistered: the hotkey is not registered.
            ChainError: ``url`` is no origin or too long, or the chain does not take it.
        """
        data = checked_endpoint(url).encode("ascii")
        fields = [{f"Raw{len(data)}": "0x" + data.hex()}]

        async def submit(client: Client, node: RpcSubstrate) -> None:
            subnet = await self._now(node)
            registered(subnet.snapshot.neurons, keypair.ss58_address)
            call = Commitments.set_commitment(self._netuid, {"fields": fields})  # pyright: ignore[reportArgumentType]
            _included_at(await client.submit_call(call, keypair, period=ERA_BLOCKS))

        await self._link.use("publish the endpoint", submit, self._submit_seconds)

    async def endpoint(self, hotkey: str) -> str | None:
        """Return the origin in the commitment of ``hotkey``; None where there is none.

        Raises:
            ChainError: the node does not answer.
        """

        async def read(_: Client, node: RpcSubstrate) -> str | None:
            head = await self._head(node)
            keys = [self._netuid, hotkey]
            found = await query(node, head, "Commitments", "CommitmentOf", keys)
            return None if found is None else _origin(found)

        return await self._link.use("read the endpoint", read, self._read_seconds)

    async def aclose(self) -> None:
        """Close the connection; a later call opens a new one."""
        await self._link.close()

    async def _head(self, node: RpcSubstrate) -> Head:
        return await read_head(node, self._clock())

    async def _now(self, node: RpcSubstrate) -> SubnetState:
        head = await self._head(node)
        latest = self._latest
        # A block's state never changes, and many ask within one block.
        if latest is None or latest.snapshot.block_hash != head.block_hash:
            latest = self._latest = await read_subnet(node, self._netuid, head)
        return latest

    async def _at(self, node: RpcSubstrate, block: int) -> Head:
        head = await self._head(node)
        if not 0 <= block <= head.block:
            raise ChainError(f"block {block} is not there yet; the head is {head.block}")
        return Head(block, (await node.block_hash(block)).removeprefix("0x"))


def _included_at(result: ExtrinsicResult) -> int:
    """Return the block of a submission that succeeded."""
    if result.error is not None:
        _raise_known(result.error)
    if not result.success or result.extrinsic_id is None:
        raise ChainError(f"the chain confirmed no success: {result.message[:500]}")
    return int(result.extrinsic_id.partition("-")[0])


def _raise_known(error: Refusal) -> None:
    """Raise what the chain's refusal is among the roles' own errors, if it is one of them."""
    if error.code == ErrorCode.NOT_REGISTERED:
        raise NotRegistered(error.message)
    rule = "rate_limit" if error.code == ErrorCode.RATE_LIMITED else _RULES.get(error.name or "")
    if rule is not None:
        raise WeightsRefused(rule, error.message)


def _origin(commitment: Mapping[str, Any]) -> str | None:
    """Return the origin that a commitment holds, or None where it holds something else."""
    fields = commitment["info"]["fields"]
    raw = b""
    for entry in fields:
        for variant, value in entry.items():
            if variant.startswith("Raw"):
                raw += bytes.fromhex(value.removeprefix("0x"))
    try:
        return checked_endpoint(raw.decode("ascii"))
    except (ChainError, UnicodeDecodeError):
        return None
