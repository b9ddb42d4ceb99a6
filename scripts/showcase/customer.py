"""The customer's side of an order: nothing but the official ``openai`` client."""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openai import APIStatusError, OpenAI
from openai.types import Batch

from protocol.manifest import FileName

POLL_SECONDS = 0.5
ENDPOINTS = ("/v1/chat/completions", "/v1/completions")
ENDED = frozenset({"completed", "failed", "expired", "cancelled"})


class DemoError(Exception):
    """The demo cannot go on; the message says why."""


@dataclass(frozen=True)
class Delivery:
    """An ended batch and the folder of what came back; None where nothing was delivered."""

    batch: Batch
    folder: Path | None

    def rows(self, name: FileName) -> list[dict[str, Any]]:
        """Return the objects of one of its files; none where there is no delivery."""
        if self.folder is None:
            return []
        return [json.loads(line) for line in (self.folder / name).read_text().splitlines()]


def check_input(path: Path, model: str) -> str:
    """Return the endpoint that the file's lines are for.

    Raises:
        DemoError: the file cannot be read, or it names another model than ``model``.
    """
    try:
        rows = list(_objects(path.read_bytes()))
    except OSError as error:
        raise DemoError(f"cannot read {path}: {error.strerror}") from error
    for row in rows:
        body = row.get("body")
        named = body.get("model") if isinstance(body, dict) else None
        if isinstance(named, str) and named != model:
            raise DemoError(
                f"{path} names the model {named}; the demo's network serves {model} only. "
                "Name that one in the lines or leave `model` out"
            )
    urls = [row["url"] for row in rows if row.get("url") in ENDPOINTS]
    return urls[0] if urls else ENDPOINTS[0]


def place(client: OpenAI, path: Path, endpoint: str, model: str, revision: str) -> Batch:
    """Upload ``path`` and create its batch.

    Raises:
        DemoError: the gateway refused file or batch.
    """
    try:
        with path.open("rb") as content:
            file = client.files.create(file=content, purpose="batch")
        return client.batches.create(
            input_file_id=file.id,
            endpoint=endpoint,  # pyright: ignore[reportArgumentType] - checked by the gateway
            completion_window="24h",
            metadata={"model": model, "revision": revision},
        )
    except APIStatusError as error:
        raise DemoError(f"the gateway refused {path.name}: {_reason(error)}") from error


def follow(client: OpenAI, batch: Batch, show: Callable[[Batch], None]) -> Batch:
    """Poll until the batch has ended, giving each state to ``show``, and return the last."""
    while batch.status not in ENDED:
        time.sleep(POLL_SECONDS)
        batch = client.batches.retrieve(batch.id)
        show(batch)
    return batch


def _objects(content: bytes) -> Iterator[dict[str, Any]]:
    """Yield the lines that are JSON objects; what is wrong with the others the gateway says."""
    for line in content.split(b"\n"):
        try:
            row = json.loads(line.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict):
            yield row


def _reason(error: APIStatusError) -> str:
    body = error.body if isinstance(error.body, dict) else {}
    return f"{body.get('code', error.status_code)}: {body.get('message', error.message)}"
