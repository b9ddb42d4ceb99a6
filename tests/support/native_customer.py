"""A customer of the native routes, who speaks raw HTTP."""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx
from batch_rows import encoded, request
from live_gateway import ENOUGH_USD, LiveGateway
from small_model import MODEL

ENDED = ("delivered", "expired", "cancelled", "failed")
SECONDS = 60.0


@dataclass
class NativeCustomer:
    """An account of a test's own.

    Attributes:
        commit: of the small model.
        usd: what it is credited; None for nothing.
    """

    gateway: LiveGateway
    account: str
    commit: str
    usd: str | None = ENOUGH_USD
    keys: int = field(default=0)

    def __post_init__(self) -> None:
        self.key = self.gateway.new_key(self.account, usd=self.usd)
        self.auth = {"Authorization": f"Bearer {self.key}"}

    def call(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Send a request under ``/api/v1``, or to a path from the root."""
        url = self.gateway.origin + (path if path.startswith("/api/") else f"/api/v1{path}")
        headers = self.auth | options.pop("headers", {})
        return httpx.request(method, url, headers=headers, timeout=120, **options)

    def get(self, path: str) -> Any:
        """Return what a route answers with, which must be 200."""
        answer = self.call("GET", path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def upload(self, *lines: dict[str, Any] | bytes) -> str:
        """Upload a file, of one good line by default; return its id."""
        rows = lines or (request("q1"),)
        content = b"\n".join(row if isinstance(row, bytes) else encoded(row) for row in rows)
        files = self.gateway.client(self.key).files
        return files.create(file=("in.jsonl", content), purpose="batch").id

    def ask(self, *lines: dict[str, Any] | bytes, **changes: Any) -> httpx.Response:
        """Ask for a quote on lines, with changes of the body; None leaves a member out."""
        body = {"model": MODEL, "revision": self.commit} | changes
        if "input_file_id" not in body:
            body["input_file_id"] = self.upload(*lines)
        kept = {name: value for name, value in body.items() if value is not None}
        return self.call("POST", "/dataset-orders/quotes", json=kept)

    def quote(self, *lines: dict[str, Any] | bytes, **changes: Any) -> dict[str, Any]:
        """Return a quote on lines."""
        answer = self.ask(*lines, **changes)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def place(self, quote_id: str, key: str | None = None) -> httpx.Response:
        """Order a quote, with a key of its own by default."""
        self.keys += 1
        headers = {"Idempotency-Key": key or f"{self.account}-{self.keys:016}"[-80:]}
        return self.call("POST", "/dataset-orders", json={"quote_id": quote_id}, headers=headers)

    def order(self, *lines: dict[str, Any] | bytes, **changes: Any) -> dict[str, Any]:
        """Quote lines and order them."""
        answer = self.place(self.quote(*lines, **changes)["id"])
        assert answer.status_code == 200, answer.text
        return answer.json()

    def wait(self, order_id: str) -> dict[str, Any]:
        """Poll until an order has ended."""
        deadline = time.monotonic() + SECONDS
        while True:
            order = self.get(f"/dataset-orders/{order_id}")
            if order["state"] in ENDED:
                return order
            assert time.monotonic() < deadline, f"the order is still {order['state']}"
            time.sleep(0.05)

    def files(self, order: dict[str, Any], kind: str) -> list[bytes]:
        """Return the files of a kind of an order's delivery, in order."""
        (delivery,) = order["deliveries"]
        return [
            self.call("GET", file["url"]).content
            for file in delivery["files"]
            if file["kind"] == kind
        ]


def rows_of(shards: Sequence[bytes]) -> list[dict[str, Any]]:
    """Return the rows of JSONL shards, one after another."""
    return [json.loads(line) for shard in shards for line in shard.splitlines()]
