"""A ``LocalChain``'s state as a Bittensor node stores it: SCALE values by storage key."""

from collections.abc import Callable, Mapping
from typing import Any

from bittensor._transport.codec import RuntimeCodec

from protocol.chain.base import Neuron
from protocol.chain.local import LocalChain

Event = dict[str, Any]
_PALLET = "SubtensorModule"


class ChainState:
    """The encoded state of subnet ``netuid``.

    Args:
        chain: the subnet.
        clock: seconds since the epoch.
        codec: of the runtime.
        netuid: its number.
    """

    def __init__(
        self, chain: LocalChain, clock: Callable[[], float], codec: RuntimeCodec, netuid: int
    ) -> None:
        self._chain = chain
        self._clock = clock
        self._codec = codec
        self._netuid = netuid
        self._types = {entry["id"]: entry["type"] for entry in codec.registry_types()}
        self._stored = {
            (pallet.name, item.name)
            for pallet in codec.metadata_ir().pallets
            for item in pallet.storage
        }
        # By validator, u16 by UID as they were set. The chain keeps what a UID was given when
        # another hotkey takes it over, and leaves it out where it counts weights.
        self.rows: dict[str, dict[int, int]] = {}

    async def stored(self, key: str, block: int, events: list[Event]) -> str | None:
        """Return the value of one storage key, both 0x-hex; None where nothing is stored.

        Neurons are those of the block; rules and weights are those of now.
        """
        rules = await self._chain.parameters()
        then = (await self._chain.snapshot(block)).neurons
        netuid = self._netuid
        values: dict[tuple[str, str, tuple[int | str, ...]], Any] = {
            ("Timestamp", "Now", ()): int(self._clock() * 1000),
            ("System", "Events", ()): events,
            (_PALLET, "StakeThreshold", ()): rules.min_stake_rao,
            (_PALLET, "CommitRevealWeightsEnabled", (netuid,)): rules.commit_reveal,
            (_PALLET, "WeightsSetRateLimit", (netuid,)): rules.weights_rate_limit,
            (_PALLET, "LastUpdate", (netuid,)): then,
            (_PALLET, "MinAllowedWeights", (netuid,)): rules.min_weights,
            (_PALLET, "MaxWeightsLimit", (netuid,)): rules.max_weight,
            (_PALLET, "Tempo", (netuid,)): rules.tempo,
            (_PALLET, "RevealPeriodEpochs", (netuid,)): rules.reveal_period_epochs,
            (_PALLET, "LastEpochBlock", (netuid,)): rules.epoch_block,
            (_PALLET, "SubnetEpochIndex", (netuid,)): rules.epoch,
            (_PALLET, "BlocksSinceLastStep", (netuid,)): block - rules.epoch_block,
        }
        for hotkey, neuron in then.items():
            values[_PALLET, "Uids", (netuid, hotkey)] = neuron.uid
            values[_PALLET, "Weights", (netuid, neuron.uid)] = hotkey
            values["Commitments", "CommitmentOf", (netuid, hotkey)] = hotkey
        for (pallet, item, keys), value in values.items():
            if (pallet, item) in self._stored and self._key(pallet, item, keys) == key:
                return self._encoded(pallet, item, await self._read(item, value))
        return None

    async def _read(self, item: str, value: Any) -> Any:
        """What takes another reading of the chain is read for the one key that asks for it."""
        if item == "LastUpdate":
            return await self._updates(value)
        if item == "Weights":
            now = (await self._chain.snapshot()).neurons
            if value not in now:
                return []
            counting = (await self._chain.weight_row(value)).weights
            counting = {now[target].uid: weight for target, weight in counting.items()}
            return list((self.rows.get(value, {}) | counting).items())
        if item == "CommitmentOf":
            endpoint = await self._chain.endpoint(value)
            if endpoint is None:
                return None
            field = {f"Raw{len(endpoint)}": "0x" + endpoint.encode().hex()}
            return {"deposit": 0, "block": 0, "info": {"fields": [field]}}
        return value

    async def metagraph(self, block: int, netuid: int) -> str:
        """Return the subnet's metagraph at a block as the runtime's interface encodes it."""
        output = self._codec.runtime_api_map["SubnetInfoRuntimeApi"]["get_metagraph"]["output"]
        if netuid != self._netuid:
            return "0x" + self._codec.encode(output, None).hex()
        rules = await self._chain.parameters()
        now = (await self._chain.snapshot(block)).neurons
        neurons = list(now.values())
        graph = self._zero(self._some(output)) | {
            "netuid": netuid,
            "block": block,
            "tempo": rules.tempo,
            "owner_hotkey": rules.owner_hotkey
            or "5C4hrfjw9DjXZTzV3MwzrrAr9P1MJhSrvWGWqi1eSuyUpnhM",
            "min_allowed_weights": rules.min_weights,
            "max_weights_limit": rules.max_weight,
            "weights_version": rules.weights_version_key,
            "weights_rate_limit": rules.weights_rate_limit,
            "max_uids": rules.max_uids,
            "num_uids": len(neurons),
            "immunity_period": rules.immunity_blocks,
            "commit_reveal_weights_enabled": rules.commit_reveal,
            "commit_reveal_period": rules.reveal_period_epochs,
            "hotkeys": [neuron.hotkey for neuron in neurons],
            "coldkeys": [neuron.coldkey for neuron in neurons],
            "validator_permit": [neuron.validator_permit for neuron in neurons],
            "block_at_registration": [neuron.registered_at_block for neuron in neurons],
            "last_update": await self._updates(now),
            "total_stake": [neuron.stake_rao for neuron in neurons],
        }
        return "0x" + self._codec.encode(output, graph).hex()

    def zero(self, api: str, method: str) -> str:
        """Return an answer of a runtime's interface in which everything is zero."""
        output = self._codec.runtime_api_map[api][method]["output"]
        return "0x" + self._codec.encode(output, self._zero(_number(output))).hex()

    def outcome_event(self, index: int, failed: str | None) -> Event:
        """Return the event that ends an extrinsic: success, or the pallet's error."""
        info = {
            "weight": {"ref_time": 0, "proof_size": 0},
            "class": "Normal",
            "pays_fee": "Yes",
        }
        outcome: dict[str, Any] = {"ExtrinsicSuccess": {"dispatch_info": info}}
        if failed is not None:
            pallets = self._codec.metadata_ir().pallets
            pallet = next(pallet for pallet in pallets if pallet.name == "SubtensorModule")
            number = next(error.index for error in pallet.errors if error.name == failed)
            module = {"index": pallet.index, "error": "0x" + bytes([number, 0, 0, 0]).hex()}
            error = {"Module": module}
            outcome = {"ExtrinsicFailed": {"dispatch_error": error, "dispatch_info": info}}
        return {"phase": {"ApplyExtrinsic": index}, "event": {"System": outcome}, "topics": []}

    async def _updates(self, neurons: Mapping[str, Neuron]) -> list[int]:
        """When each of the neurons of a block updated its weights last, as of now."""
        now = (await self._chain.snapshot()).neurons
        return [
            (await self._chain.weight_row(hotkey)).updated_at_block
            if hotkey in now
            else neuron.registered_at_block
            for hotkey, neuron in neurons.items()
        ]

    def _key(self, pallet: str, item: str, keys: tuple[int | str, ...]) -> str:
        entry = self._codec.storage_entry(pallet, item)
        return "0x" + self._codec.storage_key(entry, list(keys)).hex()

    def _encoded(self, pallet: str, item: str, value: Any) -> str | None:
        if value is None:
            return None
        entry = self._codec.storage_entry(pallet, item)
        return "0x" + self._codec.encode(entry.value_type, value).hex()

    def _some(self, output: str) -> int:
        """The type inside an ``Option``."""
        variants = self._types[_number(output)]["def"]["variant"]["variants"]
        return next(variant for variant in variants if variant["name"] == "Some")["fields"][0][
            "type"
        ]

    def _zero(self, number: int) -> Any:
        """The value of a type in which everything is zero, empty, or the first variant."""
        kind, form = next(iter(self._types[number]["def"].items()))
        if kind == "composite":
            fields = form.get("fields", [])
            if fields and fields[0].get("name"):
                return {field["name"]: self._zero(field["type"]) for field in fields}
            zeros = [self._zero(field["type"]) for field in fields]
            return zeros[0] if len(zeros) == 1 else zeros
        if kind == "variant":
            first = form["variants"][0]
            return None if first["name"] == "None" else first["name"]
        if kind == "array":
            return "0x" + "00" * form["len"]
        if kind == "tuple":
            return tuple(self._zero(part) for part in form)
        if kind == "sequence":
            return []
        if kind == "compact":
            return 0
        return False if form == "bool" else 0


def _number(type_string: str) -> int:
    return int(type_string.removeprefix("scale_info::"))
