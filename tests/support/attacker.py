"""A node that attacks a live gateway with real, rightly signed requests.

Faked are the tokens and the verdicts alone: no model runs.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import openai
from bittensor import http_auth
from bittensor_core import Keypair
from fake_nodes import FakeNodes, all_verified
from live_gateway import LiveGateway, live_gateway
from small_model import MODEL, small_model_hub
from sqlmodel import select
from tokenizers import Tokenizer
from world import proven

from gateway.orders import life
from gateway.store.tables import Lease as LeaseRow
from gateway.store.tables import Node, Order, Record
from protocol.documents import statement_of_result
from protocol.keys import sign_statement
from protocol.messages import AuditLease, Lease, LoadedModel, Message, Result

POSTS = "/nodes/v1/leases"


@dataclass(frozen=True)
class Attacked:
    """A gateway under attack, the model it serves, and the id that ends its samples."""

    gateway: LiveGateway
    loaded: LoadedModel
    end: int


@contextmanager
def attacked(folder: Path) -> Iterator[Attacked]:
    """Serve a gateway and the small model's hub in ``folder``."""
    with (
        small_model_hub(folder / "hub") as commit,
        live_gateway(folder / "gateway", unit_samples=2, open_orders=1_000) as gateway,
    ):
        path = folder / "hub" / "files" / "tokenizer.json"
        end = Tokenizer.from_file(str(path)).token_to_id("<|im_end|>")
        assert end is not None
        yield Attacked(gateway, LoadedModel(model=MODEL, revision=commit), end)


@contextmanager
def attacker_of(target: Attacked) -> Iterator["Attacker"]:
    """An attacker at a gateway with one order of two lines and four samples."""
    batch = order(target.gateway, 2)
    yield Attacker(target.gateway, target.loaded, target.end)
    end(target.gateway, batch)


class Attacker:
    """A node that announces itself, holds leases and sends what it likes."""

    def __init__(self, gateway: LiveGateway, loaded: LoadedModel, end: int) -> None:
        self.gateway = gateway
        keys = [new_keypair() for _ in range(2)]
        self.nodes = FakeNodes(*keys, loaded, [5, end], all_verified)
        self.miner, self.validator = keys
        gateway.register(self.miner.ss58_address)
        gateway.register(self.validator.ss58_address, validator_permit=True)
        for key, role in ((self.miner, "miner"), (self.validator, "validator")):
            announcement = self.nodes.announcement(role)
            assert self.send(key, "/nodes/v1/announce", announcement).status_code == 204

    def prove(self, verified: int = 100_000) -> None:
        """Make it that so many samples of the miner were verified before."""
        hotkey, loaded = self.miner.ss58_address, self.nodes.loaded

        async def add() -> None:
            async with self.gateway.state.store.write() as session:
                node = await session.get_one(Node, hotkey)
                session.add(proven(hotkey, node.coldkey, loaded.model, loaded.revision, verified))

        self.gateway.run(add())

    def send(self, key: Keypair, path: str, message: Message | bytes = b"") -> httpx.Response:
        """Send a message, rightly signed."""
        body = message if isinstance(message, bytes) else message.model_dump_json().encode()
        headers = signed(self.gateway, key, path, body)
        return httpx.post(self.gateway.origin + path, content=body, headers=headers, timeout=60)

    def lease(self, samples: int = 2) -> Lease:
        loaded = self.nodes.loaded.model_dump()
        body = {"role": "miner", "loaded": loaded, "max_samples": samples}
        answer = self.send(self.miner, POSTS, json.dumps(body).encode())
        return Lease.model_validate_json(answer.content)

    def audit(self) -> AuditLease:
        body = {"role": "validator", "loaded": self.nodes.loaded.model_dump()}
        answer = self.send(self.validator, POSTS, json.dumps(body).encode())
        return AuditLease.model_validate_json(answer.content)

    def post(
        self, lease: Lease, result: Message | bytes, key: Keypair | None = None
    ) -> httpx.Response:
        return self.send(key or self.miner, f"{POSTS}/{lease.lease_id}/result", result)

    def resigned(self, result: Result, **changes: Any) -> Result:
        """Return a changed result under the miner's own signature."""
        changed = result.model_copy(update=changes)
        signature = sign_statement(self.miner, statement_of_result(changed))
        return changed.model_copy(update={"signature": signature})


def order(gateway: LiveGateway, lines: int, max_tokens: int = 16) -> str:
    """Place an order of so many lines with two samples each; return its batch id."""
    requests = [
        {
            "custom_id": f"q{at}",
            "body": {
                "model": MODEL,
                "messages": [{"role": "user", "content": f"hello {at}"}],
                "max_tokens": max_tokens,
                "n": 2,
            },
        }
        for at in range(lines)
    ]
    batch = gateway.openrelay().batches.create(
        input_file_id=openai.omit,  # pyright: ignore[reportArgumentType]
        endpoint="/v1/chat/completions",
        completion_window="24h",
        extra_body={"requests": requests},
    )
    return batch.id


def end(gateway: LiveGateway, batch: str) -> None:
    """Cancel an order and end what is in flight of it, which would be the next test's."""
    gateway.openrelay().batches.cancel(batch)
    long_after = gateway.state.now_ms() + 10**9

    async def stop() -> None:
        store, policy = gateway.state.store, gateway.state.settings.policy
        async with store.read() as session:
            orders = (await session.exec(select(Order.id))).all()
        for order_id in orders:
            await life.stop_cancelled(store, order_id, policy, long_after)

    gateway.run(stop())


def new_keypair() -> Keypair:
    return Keypair.create_from_mnemonic(Keypair.generate_mnemonic())


def new_registered(gateway: LiveGateway) -> Keypair:
    key = new_keypair()
    gateway.register(key.ss58_address)
    return key


def signed(
    gateway: LiveGateway, key: Keypair, path: str, body: bytes, **claims: Any
) -> dict[str, str]:
    return http_auth.sign(
        key,
        method="POST",
        path=path,
        body=body,
        receiver_ss58=gateway.state.keypair.ss58_address,
        **claims,
    )


def assert_refused(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert error["code"] == code
    return error


def counters(gateway: LiveGateway) -> list[tuple[int, ...]]:
    """Every count that a post could move: of orders, leases and miners."""

    async def read() -> list[tuple[Any, ...]]:
        async with gateway.state.store.read() as session:
            orders = (await session.exec(select(Order).order_by(Order.id))).all()
            leases = (await session.exec(select(LeaseRow).order_by(LeaseRow.id))).all()
            nodes = (await session.exec(select(Node).order_by(Node.hotkey))).all()
            records = (await session.exec(select(Record).order_by(Record.miner))).all()
        return [
            *(
                (o.samples_verified, o.samples_void, o.samples_missing, o.tokens_verified)
                for o in orders
            ),
            *((lease.state, lease.tokens, lease.answer_sha256) for lease in leases),
            *(node.tokens_per_second for node in nodes),
            *(record.entries_json for record in records),
        ]

    return gateway.run(read())
