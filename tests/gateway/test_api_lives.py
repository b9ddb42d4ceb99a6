"""How batches live and end through either dialect, with nodes that fake the model."""

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from both_dialects import batch_in, check_ended_in_both
from ended_batch import wait
from fake_nodes import FakeNodes, fake_nodes
from live_gateway import LiveGateway, live_gateway
from openai.types import Batch
from small_model import MODEL, small_model_hub
from tokenizers import Tokenizer

from protocol.messages import LoadedModel

CHAT = "/v1/chat/completions"
HOUR = 3_600.0


class Clock:
    """The machine's clock, which a test can put forward."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead


def item(custom_id: str, **body: Any) -> dict[str, Any]:
    message = {"role": "user", "content": "hello " + custom_id}
    body = {"model": MODEL, "messages": [message], "max_tokens": 16, "seed": 7, "n": 2} | body
    return {"custom_id": custom_id, "body": body}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, list[int]]]:
    """The commit of the small model, and the ids of an answer that ends."""
    folder = tmp_path_factory.mktemp("hub")
    with small_model_hub(folder) as commit:
        tokenizer = Tokenizer.from_file(str(folder / "files" / "tokenizer.json"))
        yield commit, [*tokenizer.encode("hello").ids, tokenizer.token_to_id("<|im_end|>")]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def gateway(hub: tuple[str, list[int]], tmp_path: Path, clock: Clock) -> Iterator[LiveGateway]:
    with live_gateway(tmp_path / "gateway", clock, unit_samples=4) as running:
        yield running


@pytest.fixture
def nodes(gateway: LiveGateway, hub: tuple[str, list[int]], tmp_path: Path) -> Iterator[FakeNodes]:
    """A miner and a validator at work."""
    with fake_nodes(gateway, tmp_path, LoadedModel(model=MODEL, revision=hub[0]), hub[1]) as made:
        yield made


def order(client: openai.OpenAI, *items: dict[str, Any], window: Any = "24h") -> Batch:
    return client.batches.create(
        input_file_id=openai.omit,  # pyright: ignore[reportArgumentType]
        endpoint=CHAT,
        completion_window=window,
        extra_body={"requests": list(items)},
    )


def test_the_whole_journey(gateway: LiveGateway, nodes: FakeNodes) -> None:
    client = gateway.openrelay()
    rows = [*(item(f"q{at}") for at in range(5)), item("bad", stop="x")]
    content = b"".join(
        json.dumps({"method": "POST", "url": CHAT} | row).encode() + b"\n" for row in rows
    )
    file = client.files.create(file=("in.jsonl", content), purpose="batch")
    uploaded = client.batches.create(
        input_file_id=file.id, endpoint=CHAT, completion_window="24h", metadata={"a": "b"}
    )
    inline = order(client, *rows)
    custom_ids = [*(f"q{at}" for at in range(5)), "bad"]
    for batch in (uploaded, inline):
        assert wait(client, batch.id).status == "completed"
        shown, output, errors = check_ended_in_both(gateway, batch.id, custom_ids)
        assert (len(output), len(errors)) == (5, 1)
        prompts = sum(row["response"]["body"]["usage"]["prompt_tokens"] for row in output)
        assert shown["usage"]["input_tokens"] == prompts
        assert "reliquary_queue" not in shown
    assert [row.id for row in client.batches.list(limit=1)] == [inline.id, uploaded.id]
    models = client.models.list()
    assert [(model.id, model.owned_by, model.object) for model in models] == [
        (MODEL, "reliquary", "model")
    ]
    _delete_all(gateway, client, inline)


def _delete_all(gateway: LiveGateway, client: openai.OpenAI, batch: Batch) -> None:
    """Delete every file: the batch still shows them, and they are gone."""
    ended = client.batches.retrieve(batch.id)
    for row in client.files.list():
        client.files.delete(row.id)
    assert client.batches.retrieve(batch.id) == ended
    assert ended.output_file_id is not None
    url = f"{gateway.base_url}/files/{ended.output_file_id}/content"
    assert httpx.get(url, headers=gateway.auth).status_code == 404


def test_an_order_that_waits_expires(gateway: LiveGateway, clock: Clock) -> None:
    client = gateway.openrelay()
    batch = order(client, item("q1"), item("q2", stop="x"))
    queue = batch_in(gateway, gateway.base_url, batch.id)["reliquary_queue"]
    assert queue == {
        "queue_position": 1, "estimated_start_at": None, "reason": "waiting_for_capacity",
    }  # fmt: skip
    with pytest.raises(openai.ConflictError) as refused:
        client.files.delete(batch.input_file_id)
    assert refused.value.code == "file_in_use"
    clock.ahead = 24 * HOUR + 1
    ended = wait(client, batch.id)
    assert ended.status == "expired"
    assert ended.expired_at is not None
    assert ended.expires_at is not None
    assert ended.expired_at >= ended.expires_at
    assert ended.request_counts is not None
    assert ended.request_counts.to_dict() == {"total": 2, "completed": 0, "failed": 2}
    shown, output, errors = check_ended_in_both(gateway, batch.id, ["q1", "q2"])
    assert (output, [row["custom_id"] for row in errors]) == ([], ["q2", "q1"])
    assert "usage" not in shown
    with pytest.raises(openai.ConflictError):
        client.batches.cancel(batch.id)
    assert client.files.delete(batch.input_file_id).deleted


def test_a_free_miner_is_no_wait(gateway: LiveGateway, nodes: FakeNodes) -> None:
    client = gateway.openrelay()
    # Only once the nodes have announced themselves there is a free one.
    assert wait(client, order(client, item("q1")).id).status == "completed"
    batch = order(client, item("q2"))
    assert wait(client, batch.id).status == "completed"
    queue: Any = batch.to_dict()["reliquary_queue"]
    assert queue["queue_position"] == 1
    assert "reason" not in queue
    assert queue["estimated_start_at"].endswith("Z")


def stalled(nodes: FakeNodes, results: int) -> threading.Semaphore:
    """Let the validator judge so many results only, until more are released."""
    allowed = threading.Semaphore(results)
    judge = nodes.judge

    def judge_if_allowed(lease: Any) -> Any:
        while not allowed.acquire(timeout=0.1):
            if nodes.stop.is_set():
                break
        return judge(lease)

    nodes.judge = judge_if_allowed
    return allowed


def test_a_running_batch_is_cancelled(gateway: LiveGateway, nodes: FakeNodes) -> None:
    client = gateway.openrelay()
    allowed = stalled(nodes, 1)
    batch = order(client, *(item(f"q{at}") for at in range(40)))
    wait(client, batch.id, lambda one: bool(one.request_counts and one.request_counts.completed))
    cancelling = client.batches.cancel(batch.id)
    assert cancelling.status == "cancelling"
    again = client.batches.cancel(batch.id)
    assert (again.id, again.cancelling_at) == (batch.id, cancelling.cancelling_at)
    for _ in range(40):
        allowed.release()
    assert wait(client, batch.id).status == "cancelled"
    shown, output, _ = check_ended_in_both(gateway, batch.id, [f"q{at}" for at in range(40)])
    assert output
    assert shown["usage"]["output_tokens"] > 0
    with pytest.raises(openai.ConflictError) as refused:
        client.batches.cancel(batch.id)
    assert refused.value.code == "batch_not_cancellable"


def test_a_running_batch_expires_with_what_it_has(
    gateway: LiveGateway, nodes: FakeNodes, clock: Clock
) -> None:
    client = gateway.client()
    stalled(nodes, 1)
    batch = order(gateway.openrelay(), *(item(f"q{at}") for at in range(6)))
    wait(client, batch.id, lambda one: bool(one.request_counts and one.request_counts.completed))
    clock.ahead = 24 * HOUR + 1
    assert wait(client, batch.id).status == "expired"
    nodes.stop.set()
    _, output, errors = check_ended_in_both(gateway, batch.id, [f"q{at}" for at in range(6)])
    assert len(output) == 2
    assert [row["error"]["code"] for row in errors] == ["missing_samples"] * 4
