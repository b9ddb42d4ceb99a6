"""The whole journey of a customer, on a real network, with every client that a customer may have.

``base_url`` and the key are all that is set; retries and paging are the client's own.
"""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from clients import NAMES, Client, ClientError, expected_class, open_client
from customer import BATCH_SECONDS, Customer, chat_line, tale_lines
from ended_batch import ENDED, check_ended
from recording_proxy import RecordingProxy, recording_proxy

pytestmark = pytest.mark.e2e

CHAT = "/v1/chat/completions"


def refused(client: Client, proxy: RecordingProxy, op: str, **arguments: Any) -> dict[str, Any]:
    """Make a call that is refused for good, and see that it was sent once."""
    proxy.clear()
    with pytest.raises(ClientError) as caught:
        client.call(op, **arguments)
    assert [exchange.status for exchange in proxy.exchanges] == [caught.value.status]
    return caught.value.told


@pytest.mark.parametrize("name", NAMES)
def test_the_whole_journey(name: str, customer: Customer, tmp_path: Path) -> None:
    lines = [*tale_lines(3, max_tokens=24), chat_line("bad", "stop", max_tokens=24, stop=["x"])]
    path = tmp_path / "in put (1).jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with (
        recording_proxy(customer.network.origin) as proxy,
        open_client(name, f"{proxy.origin}/api/openai/v1", customer.network.api_key) as client,
    ):
        file = client.call("upload", path=str(path), purpose="batch")
        assert (file["filename"], file["bytes"]) == (path.name, path.stat().st_size)
        assert client.call("file", id=file["id"]) == file
        assert client.call("files")[0] == file
        assert client.call("content", id=file["id"]) == path.read_text()

        batch = ordered_once(name, client, proxy, file["id"])
        dropped = client.call(
            "create", input_file_id=file["id"], endpoint=CHAT, completion_window="48h"
        )
        assert client.call("cancel", id=dropped["id"])["status"] in ("cancelled", "cancelling")
        ended = polled(client, batch["id"])
        assert ended["status"] == "completed"
        assert ended["metadata"] == {"client": name}
        assert delivered(client, customer, ended) == [line["custom_id"] for line in lines]
        assert polled(client, dropped["id"])["status"] == "cancelled"

        for batch_id in (batch["id"], dropped["id"]):
            told = refused(client, proxy, "cancel", id=batch_id)
            assert (told["class"], told["code"]) == (
                expected_class(name, 409), "batch_not_cancellable",
            )  # fmt: skip
        proxy.clear()
        listed = [row["id"] for row in client.call("batches", limit=1)]
        assert listed[:2] == [dropped["id"], batch["id"]]
        assert listed == [row.id for row in customer.client.batches.list(limit=100)]
        assert len(proxy.exchanges) == len(listed)
    assert {exchange.headers["authorization"] for exchange in proxy.exchanges} == {
        f"Bearer {customer.network.api_key}"
    }


def test_keys_and_accounts_of_a_running_gateway(customer: Customer) -> None:
    data = str(customer.network.layout.gateway)

    def reliquary(*words: str) -> str:
        command = [sys.executable, "-P", "-m", "scripts.cli", *words, "--data", data]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    scope = ("--scope", "orders:write", "--expires", "1h")
    key = reliquary("keys", "create", "--account", "acme", *scope)
    assert f"{key[:12]} " in reliquary("keys", "list", "--account", "acme")
    with open_client("go", customer.network.base_url, key) as client:
        assert client.call("files") == []
        reliquary("accounts", "close", "acme")
        assert refusal(client) == (403, "orders_unavailable")
        reliquary("accounts", "open", "acme")
        assert client.call("batches") == []
        reliquary("keys", "revoke", key[:12])
        assert refusal(client) == (401, "invalid_api_key")


def refusal(client: Client) -> tuple[int, str | None]:
    with pytest.raises(ClientError) as caught:
        client.call("files")
    return caught.value.status, caught.value.code


def ordered_once(name: str, client: Client, proxy: RecordingProxy, file_id: str) -> dict[str, Any]:
    """Create a batch twice with one key, which is one batch, and not with another body."""
    body = {"input_file_id": file_id, "endpoint": CHAT, "completion_window": "24h"}
    headers = {"Idempotency-Key": f"the-journey-of-{name}"}
    metadata = {"client": name}
    made = [client.call("create", **body, metadata=metadata, headers=headers) for _ in range(2)]
    assert made[0]["id"] == made[1]["id"]
    told = refused(client, proxy, "create", **body, headers=headers)
    assert (told["class"], told["code"]) == (expected_class(name, 409), "idempotency_conflict")
    return made[0]


def polled(client: Client, batch_id: str) -> dict[str, Any]:
    """Poll through the client until the batch ends."""
    deadline = time.monotonic() + BATCH_SECONDS
    while True:
        batch = client.call("batch", id=batch_id)
        if batch["status"] in ENDED:
            return batch
        assert time.monotonic() < deadline, batch
        time.sleep(0.2)


def delivered(client: Client, customer: Customer, ended: dict[str, Any]) -> list[str]:
    """Check what the client downloads; return the custom ids of output and errors."""
    seen = customer.client.batches.retrieve(ended["id"])
    output, errors = check_ended(customer.client, seen)
    downloaded = [
        [json.loads(row) for row in client.call("content", id=ended[place]).splitlines()]
        for place in ("output_file_id", "error_file_id")
    ]
    assert downloaded == [output, errors]
    assert all(row["response"]["body"]["choices"][0]["message"]["content"] for row in downloaded[0])
    return [row["custom_id"] for row in output + errors]
