"""A fake node of the Bittensor network: its JSON-RPC for the real client, over a ``LocalChain``.

What is real here: the websocket, the RPC's framing, SCALE and the runtime's metadata, extrinsics as
the client signs and encodes them, events and errors as it decodes them. What is fake: consensus
(every block is final at once), signatures (not verified), fees, and the pallets' rules, which are
``LocalChain``'s. A timelocked commit cannot be opened without the beacon's later signature, so a
test says beforehand, by ``seal``, what the next one holds.

Faults are asked for by a method's name: ``cut_at`` drops the socket when that method is called,
``silent_at`` keeps it open and never answers on it again, ``garbled_at`` answers something else.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from hashlib import blake2b
from typing import Any

from bittensor_core import Keypair
from chain_metadata import SPEC_VERSION, TRANSACTION_VERSION, Metadata
from chain_state import ChainState
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from protocol.chain.base import ChainError, NotRegistered, WeightsRefused
from protocol.chain.local import LocalChain

NETUID = 7
_ERRORS = {
    "stake": "NotEnoughStakeToSetWeights",
    "version_key": "IncorrectWeightVersionKey",
    "rate_limit": "SettingWeightsTooFast",
    "permit": "NeuronNoValidatorPermit",
    "uids": "UidVecContainInvalidOne",
    "count": "WeightVecLengthIsLow",
    "max_weight": "MaxWeightExceeded",
    "registered": "HotKeyNotRegisteredInSubNet",
}


class RpcError(Exception):
    """Answered to the client as the RPC's own error."""


class ChainNode:
    """The node's state and its answers, one method an RPC.

    Args:
        chain: what the node serves as subnet ``NETUID``.
        clock: the chain's clock, which dates its blocks.
        metadata: of the runtime that the node runs.
    """

    def __init__(self, chain: LocalChain, clock: Callable[[], float], metadata: Metadata) -> None:
        self.chain = chain
        self.metadata = metadata
        self.cut_at: dict[str, int] = {}
        self.silent_at: set[str] = set()
        self.garbled_at: dict[str, Any] = {}
        self.called: list[str] = []
        self.connections = 0
        self.url = ""
        self._open: set[ServerConnection] = set()
        self._state = ChainState(chain, clock, metadata.codec, NETUID)
        self._blocks: dict[str, int] = {}
        self._extrinsics: dict[int, list[str]] = {}
        self._events: dict[int, list[dict[str, Any]]] = {}
        self._nonces: dict[str, int] = {}
        self._sealed: tuple[dict[str, int], int] | None = None

    @asynccontextmanager
    async def served(self) -> AsyncIterator[str]:
        """Serve on a free port; gives the address."""
        async with serve(self._serve, "127.0.0.1", 0, close_timeout=0.2) as server:
            port = next(iter(server.sockets)).getsockname()[1]
            self.url = f"ws://127.0.0.1:{port}"
            yield self.url

    def seal(self, weights: dict[str, int], version_key: int) -> None:
        """Say what the next timelocked commit holds."""
        self._sealed = (weights, version_key)

    async def _serve(self, socket: ServerConnection) -> None:
        self.connections += 1
        self._open.add(socket)
        silent = False
        try:
            async for text in socket:
                request = json.loads(text)
                method = request["method"]
                self.called.append(method)
                if self.cut_at.get(method, 0) > 0:
                    self.cut_at[method] -= 1
                    socket.transport.abort()
                    return
                silent = silent or method in self.silent_at
                if not silent:
                    await self._answer(socket, request)
        except ConnectionClosed:
            return
        finally:
            self._open.discard(socket)

    async def all_closed(self) -> None:
        """Wait until no client is connected."""
        async with asyncio.timeout(10):
            await asyncio.gather(*(socket.wait_closed() for socket in list(self._open)))

    async def _answer(self, socket: ServerConnection, request: dict[str, Any]) -> None:
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": request["id"]}
        method = request["method"]
        try:
            answer["result"] = await getattr(self, method)(*request["params"])
            answer["result"] = self.garbled_at.get(method, answer["result"])
        except RpcError as error:
            answer["error"] = {"code": -32000, "message": str(error)}
        await socket.send(json.dumps(answer))
        if method == "author_submitAndWatchExtrinsic" and "result" in answer:
            landed = await self._newest()
            for status in ("ready", {"inBlock": landed}, {"finalized": landed}):
                params = {"subscription": answer["result"], "result": status}
                update = {"jsonrpc": "2.0", "method": "author_extrinsicUpdate", "params": params}
                await socket.send(json.dumps(update))

    # What the RPC's methods answer, by their names there.

    async def chain_getHead(self) -> str:
        return await self._newest()

    async def chain_getFinalizedHead(self) -> str:
        return await self._newest()

    async def chain_getBlockHash(self, number: int) -> str | None:
        try:
            return await self._hash(number)
        except ChainError:
            return None

    async def chain_getHeader(self, block_hash: str | None = None) -> dict[str, Any]:
        number = await self._number(block_hash)
        parent = await self._hash(number - 1) if number else "0x" + "00" * 32
        root = "0x" + "11" * 32
        return {
            "number": hex(number),
            "parentHash": parent,
            "stateRoot": root,
            "extrinsicsRoot": root,
            "digest": {"logs": []},
        }

    async def chain_getBlock(self, block_hash: str) -> dict[str, Any]:
        header = await self.chain_getHeader(block_hash)
        extrinsics = self._extrinsics.get(int(header["number"], 16), [])
        return {"block": {"header": header, "extrinsics": extrinsics}, "justifications": None}

    async def state_getRuntimeVersion(self, block_hash: str | None = None) -> dict[str, Any]:
        return {
            "specName": "node-subtensor",
            "specVersion": SPEC_VERSION,
            "transactionVersion": TRANSACTION_VERSION,
        }

    async def state_call(self, name: str, data: str, block_hash: str | None = None) -> str:
        if name == "Metadata_metadata_at_version":
            return "0x01" + _bytes(self.metadata.blob).hex()
        if name == "SubnetInfoRuntimeApi_get_metagraph":
            netuid = int.from_bytes(bytes.fromhex(data.removeprefix("0x")), "little")
            number = await self._number(block_hash)
            return await self._state.metagraph(number, netuid)
        if name == "TransactionPaymentApi_query_info":
            return self._state.zero("TransactionPaymentApi", "query_info")
        raise RpcError(f"Exported method {name} is not found")

    async def state_getStorageAt(self, key: str, block_hash: str | None = None) -> str | None:
        number = await self._number(block_hash)
        return await self._state.stored(key, number, self._events.get(number, []))

    async def account_nextIndex(self, address: str) -> int:
        return self._nonces.get(address, 0)

    async def author_submitAndWatchExtrinsic(self, extrinsic: str) -> str:
        decoded = self.metadata.codec.decode_extrinsic(extrinsic)
        signer, call = str(decoded["address"]), decoded["call"]
        if decoded["nonce"] != self._nonces.get(signer, 0):
            raise RpcError("Transaction is outdated")
        self._nonces[signer] = decoded["nonce"] + 1
        arguments = {argument["name"]: argument["value"] for argument in call["call_args"]}
        failed = await self._dispatch(signer, call["call_function"], arguments)
        number = (await self.chain.head()).block
        extrinsics = self._extrinsics.setdefault(number, [])
        extrinsics.append(extrinsic)
        event = self._state.outcome_event(len(extrinsics) - 1, failed)
        self._events.setdefault(number, []).append(event)
        return blake2b(bytes.fromhex(extrinsic[2:]), digest_size=8).hexdigest()

    async def author_unwatchExtrinsic(self, subscription: str) -> bool:
        return True

    async def _dispatch(self, signer: str, function: str, arguments: dict[str, Any]) -> str | None:
        """Carry a call out; return the pallet's error, if it has one."""
        try:
            if function == "set_mechanism_weights":
                row = dict(zip(arguments["dests"], arguments["weights"], strict=True))
                neurons = (await self.chain.snapshot()).neurons.values()
                hotkeys = {neuron.uid: neuron.hotkey for neuron in neurons}
                weights = {hotkeys[uid]: weight for uid, weight in row.items()}
                self.chain.set_weights_of(signer, weights, arguments["version_key"])
                self._state.rows[signer] = row
            elif function == "commit_timelocked_mechanism_weights":
                assert self._sealed is not None, "a test seals what a commit holds"
                weights, version_key = self._sealed
                self._sealed = None
                self.chain.set_weights_of(signer, weights, version_key)
                self._state.rows.pop(signer, None)
            elif function == "set_commitment":
                (field,) = arguments["info"]["fields"]
                (value,) = field.values()
                url = _text(value)
                await self.chain.publish_endpoint(Keypair(ss58_address=signer), url)
            else:
                raise AssertionError(f"the fake node knows no call {function}")
        except NotRegistered:
            return _ERRORS["registered"]
        except WeightsRefused as error:
            return _ERRORS[error.rule]
        return None

    async def _newest(self) -> str:
        return await self._hash((await self.chain.head()).block)

    async def _hash(self, number: int) -> str:
        block_hash = "0x" + await self.chain.block_hash(number)
        self._blocks[block_hash] = number
        return block_hash

    async def _number(self, block_hash: str | None) -> int:
        if block_hash is None:
            return (await self.chain.head()).block
        return self._blocks[block_hash]


def _bytes(data: bytes) -> bytes:
    """SCALE of a byte string: its length as a compact of four bytes, then itself."""
    return ((len(data) << 2) | 0b10).to_bytes(4, "little") + data


def _text(value: Any) -> str:
    """What a decoded ``Raw`` field holds: the codec gives hex, or text where it is text."""
    if isinstance(value, str) and value.startswith("0x"):
        return bytes.fromhex(value[2:]).decode("ascii")
    return str(value)
