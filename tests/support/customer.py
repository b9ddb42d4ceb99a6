"""A customer of a network: the official openai client and what a script would do with it."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import openai
from ended_batch import ENDED, Watched, check_all_ended
from openai.types import Batch

from scripts.up.network import Network
from scripts.up.plans import NetworkPlan

MODEL = "reliquary/tiny-qwen3"
BATCH_SECONDS = 240.0

TALE = "Tell me a long tale about a {}."
HEROES = ("fox", "robot", "sailor", "princess", "wolf", "baker", "dragon", "child")


def chat_line(custom_id: str, content: str, **body: Any) -> dict[str, Any]:
    """A chat line of the tiny model under fixed sampling, thinking off."""
    fields = {
        "model": MODEL,
        "messages": [{"role": "user", "content": content}],
        "max_tokens": 64,
        "temperature": 1.0,
        "seed": 7,
        "chat_template_kwargs": {"enable_thinking": False},
    }
    url = "/v1/chat/completions"
    return {"custom_id": custom_id, "method": "POST", "url": url, "body": fields | body}


def tale_lines(count: int, **body: Any) -> list[dict[str, Any]]:
    """Lines that ask for open text."""
    return [
        chat_line(f"q{number}", TALE.format(f"{HEROES[number % len(HEROES)]} {number}"), **body)
        for number in range(1, count + 1)
    ]


class Customer:
    """A customer of a network: the openai client and what a script would do with it."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.client = openai.OpenAI(base_url=network.base_url, api_key=network.api_key)

    def order(
        self,
        lines: Sequence[dict[str, Any]],
        endpoint: Any = "/v1/chat/completions",
        metadata: dict[str, str] | None = None,
    ) -> Batch:
        """Upload the lines and create a batch on them."""
        content = "".join(json.dumps(line) + "\n" for line in lines).encode()
        file = self.client.files.create(file=("batch.jsonl", content), purpose="batch")
        return self.client.batches.create(
            input_file_id=file.id,
            endpoint=endpoint,
            completion_window="24h",
            metadata=metadata,
        )

    def wait(self, batch: Batch, until: Callable[[Batch], bool] | None = None) -> Batch:
        """Poll until the batch ends, or ``until`` holds, and check every look at it."""
        deadline = time.monotonic() + BATCH_SECONDS
        watched = Watched(self.client)
        while True:
            try:
                batch = self.client.batches.retrieve(batch.id)
                watched.see(batch)
            except (openai.APIConnectionError, openai.InternalServerError):
                # The gateway may be down on purpose; a customer's script would wait as well.
                pass
            else:
                if until(batch) if until is not None else batch.status in ENDED:
                    return batch
            assert time.monotonic() < deadline, f"{batch.status} {batch.request_counts}"
            time.sleep(0.2)

    def native(self, batch: Batch, rest: str = "") -> Any:
        """Read the native order of a batch, or what lies under it."""
        path = f"{self.network.origin}/api/v1/dataset-orders/{batch.id.removeprefix('batch_')}"
        answer = self.client.get(path + rest, cast_to=str)
        return json.loads(answer) if not rest else [json.loads(row) for row in answer.splitlines()]


@contextmanager
def running(plan: NetworkPlan) -> Iterator[Customer]:
    """A started network's customer; every batch that ended is checked before it stops."""
    with Network(plan, print) as network:
        customer = Customer(network)
        yield customer
        check_all_ended(customer.client)
