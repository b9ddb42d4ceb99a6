"""A customer who speaks raw HTTP, and may publish models to the hub behind the gateway."""

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from batch_rows import CHAT, encoded, request
from live_gateway import LiveGateway

from scripts.hub import publish


@dataclass
class RawCustomer:
    """An account of a test's own.

    Attributes:
        hub: the folder of ``small_model_hub``.
        scratch: where models to publish are written.
        patch: undone when the test ends.
    """

    gateway: LiveGateway
    hub: Path
    scratch: Path
    account: str
    patch: pytest.MonkeyPatch

    def __post_init__(self) -> None:
        self.auth = {"Authorization": f"Bearer {self.gateway.new_key(self.account)}"}

    def call(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Send a request under the first dialect, or to a whole URL."""
        url = path if path.startswith("http") else self.gateway.base_url + path
        headers = self.auth | options.pop("headers", {})
        return httpx.request(method, url, headers=headers, timeout=120, **options)

    def upload(self, *lines: dict[str, Any]) -> str:
        """Upload a file, of one good line by default; return its id."""
        content = b"\n".join(encoded(line) for line in lines or (request("q1"),))
        answer = self.call(
            "POST", "/files", data={"purpose": "batch"}, files={"file": ("in.jsonl", content)}
        )
        assert answer.status_code == 200, answer.text
        return answer.json()["id"]

    def create(
        self, *lines: dict[str, Any], headers: dict[str, str] | None = None, **changes: Any
    ) -> httpx.Response:
        """Create a batch on lines, with changes of the body."""
        body: dict[str, Any] = {"endpoint": CHAT, "completion_window": "24h"} | changes
        body.setdefault("input_file_id", self.upload(*lines))
        return self.call("POST", "/batches", json=body, headers=headers or {})

    def model(self, name: str, **config: Any) -> dict[str, Any]:
        """Publish a variant of the small model; return a line that names it."""
        files = self.scratch / name
        files.mkdir(parents=True)
        for file in (self.hub / "files").iterdir():
            (files / file.name).write_bytes(file.read_bytes())
        settings = json.loads((files / "config.json").read_text()) | config
        (files / "config.json").write_text(json.dumps(settings))
        publish(self.hub / "hub", f"reliquary/{name}", files)
        return request("q1", model=f"reliquary/{name}")

    def cancel(self, batch_id: str) -> None:
        """Cancel a batch and wait until it has ended so."""
        assert self.call("POST", f"/batches/{batch_id}/cancel").status_code == 200
        deadline = time.monotonic() + 60
        while self.call("GET", f"/batches/{batch_id}").json()["status"] != "cancelled":
            assert time.monotonic() < deadline
            time.sleep(0.02)
