"""What the gateway states of a delivery in its manifest. Pure."""

import json
from collections.abc import Iterable
from typing import Any

from gateway.orders.content import sampling_of
from gateway.orders.delivery import Delivery, Written
from gateway.orders.evaluation import grader_of
from gateway.orders.order_report import counts_of
from gateway.store.tables import DeliveredFile, File, Order
from protocol.manifest import (
    FileRecord,
    ManifestStatement,
    NativeStatement,
    sampling_terms,
)


def manifest_statement(order: Order, ordered: File, delivery: Delivery) -> ManifestStatement:
    """Return the statement over the delivery of an OpenAI batch that is written.

    Args:
        order: its generation is over.
        ordered: the order's input file.
        delivery: its files.
    """
    files = {written.path.name: _record(written) for written in delivery.files()}
    return ManifestStatement.model_validate({**_terms(order, ordered), "files": files})


def native_statement(
    order: Order, ordered: File, files: Iterable[DeliveredFile]
) -> NativeStatement:
    """Return the statement over the delivery of a native order that is written.

    Args:
        order: its generation is over.
        ordered: the order's input file.
        files: all files of the delivery but the manifest.
    """
    return NativeStatement.model_validate(
        {
            **_terms(order, ordered),
            "output_format": order.output_format,
            "max_new_tokens": order.max_new_tokens,
            "files": {file.name: _record(file) for file in files},
        }
    )


def _terms(order: Order, ordered: File) -> dict[str, Any]:
    """Return what the statements over both kinds of delivery have in common."""
    return {
        "order_id": order.id,
        "status": order.ending,
        "created_at": order.created_at_ms // 1000,
        "template_time": order.quoted_at_ms // 1000,
        "endpoint": order.endpoint,
        "grader": grader_of(order),
        "model": order.model,
        "revision": order.revision,
        "vocabulary_size": order.vocabulary_size,
        "end_ids": json.loads(order.end_ids_json),
        "sampling": sampling_terms(sampling_of(order)),
        "seed": order.seed,
        "seed_drawn": order.seed_drawn,
        "n": order.n,
        "input": FileRecord(bytes=ordered.bytes, sha256=ordered.sha256),
        "counts": counts_of(order),
    }


def _record(written: Written | DeliveredFile) -> FileRecord:
    return FileRecord(bytes=written.bytes, sha256=written.sha256)
