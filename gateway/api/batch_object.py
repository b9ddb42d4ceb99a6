"""An order as the contract's batch object."""

import json
from typing import cast

from gateway.api.models import (
    Batch,
    BatchError,
    BatchErrors,
    BatchStatus,
    Endpoint,
    Queue,
    RequestCounts,
)
from gateway.store.tables import OPEN_STATUSES, Order, OrderStatus


def batch_object(order: Order, queue: Queue | None) -> Batch:
    """Return the batch of ``order``.

    Args:
        queue: where it stands in line; shown only while the batch waits to start.
    """
    waiting = order.status == OrderStatus.VALIDATING
    return Batch(
        id=f"batch_{order.id}",
        object="batch",
        endpoint=cast(Endpoint, order.endpoint),
        errors=_errors(order),
        input_file_id=order.input_file_id,
        completion_window=f"{order.completion_window_hours}h",
        status=cast(BatchStatus, order.status),
        output_file_id=order.output_file_id,
        error_file_id=order.error_file_id,
        created_at=order.created_at_ms // 1000,
        in_progress_at=_seconds(order.in_progress_at_ms),
        expires_at=order.expires_at_ms // 1000,
        finalizing_at=_seconds(order.finalizing_at_ms),
        completed_at=_seconds(order.completed_at_ms),
        failed_at=_seconds(order.failed_at_ms),
        expired_at=_seconds(order.expired_at_ms),
        cancelling_at=_seconds(order.cancelling_at_ms),
        cancelled_at=_seconds(order.cancelled_at_ms),
        request_counts=_counts(order),
        metadata=None if order.metadata_json is None else json.loads(order.metadata_json),
        reliquary_queue=queue if waiting else None,
    )


def _counts(order: Order) -> RequestCounts:
    """Count lines: those short of samples are failed once nothing more can come."""
    ended = order.status not in OPEN_STATUSES
    failed = order.lines_total - order.lines_completed if ended else order.lines_refused
    return RequestCounts(total=order.lines_total, completed=order.lines_completed, failed=failed)


def _errors(order: Order) -> BatchErrors | None:
    if order.failure_code is None:
        return None
    error = BatchError(
        code=order.failure_code, message=order.failure_message or "", param=None, line=None
    )
    return BatchErrors(object="list", data=[error])


def _seconds(milliseconds: int | None) -> int | None:
    return None if milliseconds is None else milliseconds // 1000
