"""What the gateway states of a delivery in its manifest. Pure."""

import json

from gateway.orders.content import sampling_of
from gateway.orders.delivery import Delivery, Written
from gateway.store.tables import File, Order
from protocol.manifest import (
    ERRORS,
    OUTPUT,
    RECEIPTS,
    Counts,
    FileRecord,
    ManifestStatement,
    sampling_terms,
)

GRADER = "reliquary_grader"


def manifest_statement(order: Order, ordered: File, delivery: Delivery) -> ManifestStatement:
    """Return the statement over a delivery that is written.

    Args:
        order: its generation is over.
        ordered: the order's input file.
        delivery: its files.
    """
    metadata = json.loads(order.metadata_json or "{}")
    return ManifestStatement.model_validate(
        {
            "order_id": order.id,
            "status": order.ending,
            "created_at": order.created_at_ms // 1000,
            "template_time": order.quoted_at_ms // 1000,
            "endpoint": order.endpoint,
            "grader": metadata.get(GRADER),
            "model": order.model,
            "revision": order.revision,
            "vocabulary_size": order.vocabulary_size,
            "end_ids": json.loads(order.end_ids_json),
            "sampling": sampling_terms(sampling_of(order)),
            "seed": order.seed,
            "seed_drawn": order.seed_drawn,
            "n": order.n,
            "input": FileRecord(bytes=ordered.bytes, sha256=ordered.sha256),
            "counts": _counts(order),
            "files": {
                OUTPUT: _record(delivery.output),
                ERRORS: _record(delivery.errors),
                RECEIPTS: _record(delivery.receipts),
            },
        }
    )


def _counts(order: Order) -> Counts:
    return Counts(
        lines_total=order.lines_total,
        lines_refused=order.lines_refused,
        lines_completed=order.lines_completed,
        samples_total=order.samples_total,
        samples_delivered=order.samples_verified,
        samples_missing=order.samples_total - order.samples_verified,
        prompt_tokens=order.prompt_tokens,
        completion_tokens=order.tokens_verified,
    )


def _record(written: Written) -> FileRecord:
    return FileRecord(bytes=written.bytes, sha256=written.sha256)
