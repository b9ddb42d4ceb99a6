"""What an ended order left short, from its delivery or from the gateway."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from protocol.manifest import MANIFEST, Manifest, NativeStatement
from scripts.batch.gateway import BatchError, Gateway
from scripts.fetch import BATCH_ID

ENDED = ("delivered", "expired", "cancelled", "failed")


def order_id_of(batch_id: str) -> str:
    """Return the order's id of a batch.

    Raises:
        BatchError: this is no batch's id.
    """
    if BATCH_ID.fullmatch(batch_id) is None:
        raise BatchError(f"{batch_id[:80]!r} is no batch id; write batch_ and the order's id")
    return batch_id.removeprefix("batch_")


@dataclass(frozen=True)
class Ended:
    """What matters of an ended order to whoever orders a part of it again.

    Attributes:
        errors: its error entries.
        grader, output_format: as it was ordered; None where it has none.
    """

    errors: list[dict[str, Any]]
    grader: str | None
    output_format: str | None

    @property
    def options(self) -> str:
        """The options of ``reliquary batch run`` that order the same again."""
        grader = "" if self.grader is None else f" --grader {self.grader}"
        return grader + (" --parquet" if self.output_format == "parquet" else "")


def ended_order(gateway: Gateway, batch_id: str) -> Ended:
    """Return what the gateway says of an ended order.

    Raises:
        BatchError: it has not ended, or left nothing to read.
    """
    order = gateway.get(f"/dataset-orders/{order_id_of(batch_id)}")
    if order["state"] not in ENDED:
        raise BatchError(f"the batch is {order['state']}; retry it once it has ended")
    if not order["deliveries"] and order["error_file_id"] is None:
        raise BatchError("the batch ended without a delivery; order the whole file again")
    urls = [
        file["url"]
        for delivery in order["deliveries"]
        for file in delivery["files"]
        if file["kind"] == "errors"
    ]
    if not urls and order["error_file_id"] is not None:
        urls = [f"/api/openai/v1/files/{order['error_file_id']}/content"]
    errors = [entry for url in urls for entry in _entries(gateway.content(url))]
    return Ended(errors, order["grader"], order["output_format"])


def ended_in(folder: Path) -> Ended:
    """Return what a delivery's folder says of its order.

    Raises:
        BatchError: it is no delivery.
        OSError: it cannot be read.
    """
    try:
        manifest = Manifest.model_validate_json((folder / MANIFEST).read_bytes())
    except (FileNotFoundError, ValidationError) as error:
        raise BatchError(f"{folder} holds no whole delivery; fetch it first") from error
    statement = manifest.statement
    errors = [
        entry
        for name in sorted(statement.files)
        if name.startswith("errors")
        for entry in _entries((folder / name).read_bytes())
    ]
    output_format = statement.output_format if isinstance(statement, NativeStatement) else None
    return Ended(errors, statement.grader, output_format)


def _entries(content: bytes) -> Iterator[dict[str, Any]]:
    for line in content.splitlines():
        try:
            entry = json.loads(line)
        except ValueError as error:
            raise BatchError("an error file cannot be read") from error
        if not isinstance(entry, dict) or "custom_id" not in entry or "error" not in entry:
            raise BatchError("an error file has a line that is no error entry")
        yield entry
