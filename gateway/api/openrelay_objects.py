"""The objects of OpenRelay's Batches API: OpenAI's plain shape, where what is unset is left out."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from gateway.api.models import Batch as OpenAIBatch
from gateway.api.models import (
    BatchStatus,
    ContractObject,
    Endpoint,
    File,
    RequestCounts,
    Seconds,
)
from gateway.ledger.charges import Bill
from gateway.store.tables import OPEN_STATUSES, Order

# Left out of the answer, and of its schema as a null, where it has no value.
Unset: Any = Field(default=None, exclude_if=lambda value: value is None)
Moment = Seconds | SkipJsonSchema[None]
FileId = str | SkipJsonSchema[None]


class BatchUsage(ContractObject):
    """What a batch came to; while it runs, so far."""

    input_tokens: Annotated[int, Field(ge=0)]
    output_tokens: Annotated[int, Field(ge=0)]
    cost_nano_usd: Annotated[int, Field(ge=0)]


class BatchFault(ContractObject):
    """Why a batch failed."""

    code: str
    message: str


class BatchFaults(ContractObject):
    """The errors of a failed batch."""

    object: Literal["list"]
    data: list[BatchFault]


class QueuePlace(ContractObject):
    """Where a batch that waits to start stands in line."""

    queue_position: Annotated[int, Field(ge=1)]
    estimated_start_at: str | SkipJsonSchema[None] = Unset
    reason: Literal["waiting_for_capacity"] | SkipJsonSchema[None] = Unset


class OpenRelayBatch(ContractObject):
    """A batch inference job."""

    id: str
    object: Literal["batch"]
    endpoint: Endpoint
    model: str
    errors: BatchFaults | SkipJsonSchema[None] = Unset
    input_file_id: str
    completion_window: str
    status: BatchStatus
    output_file_id: FileId = Unset
    error_file_id: FileId = Unset
    created_at: Seconds
    in_progress_at: Moment = Unset
    expires_at: Seconds
    finalizing_at: Moment = Unset
    completed_at: Moment = Unset
    failed_at: Moment = Unset
    expired_at: Moment = Unset
    cancelling_at: Moment = Unset
    cancelled_at: Moment = Unset
    request_counts: RequestCounts
    usage: BatchUsage | SkipJsonSchema[None] = Unset
    metadata: dict[str, str] | SkipJsonSchema[None] = Unset
    reliquary_queue: QueuePlace | SkipJsonSchema[None] = Unset


class OpenRelayBatchList(ContractObject):
    """A page of batches, newest first."""

    object: Literal["list"]
    data: list[OpenRelayBatch]
    first_id: str | SkipJsonSchema[None] = Unset
    last_id: str | SkipJsonSchema[None] = Unset
    has_more: bool


class FilePage(ContractObject):
    """A page of files."""

    object: Literal["list"]
    data: list[File]
    first_id: str | SkipJsonSchema[None] = Unset
    last_id: str | SkipJsonSchema[None] = Unset
    has_more: bool


class DeletedFile(ContractObject):
    """What is left to say of a file that was deleted."""

    id: str
    object: Literal["file"]
    deleted: Literal[True]


class Model(ContractObject):
    """A model that a live node serves."""

    id: str
    object: Literal["model"]
    created: Seconds
    owned_by: str


class ModelList(ContractObject):
    """The models that live nodes serve."""

    object: Literal["list"]
    data: list[Model]


def openrelay_batch(batch: OpenAIBatch, order: Order, bill: Bill) -> OpenRelayBatch:
    """Return the contract's ``batch`` of ``order`` in OpenRelay's shape."""
    return OpenRelayBatch(
        **batch.model_dump(exclude_none=True), model=order.model, usage=_usage(order, bill)
    )


def page_ends(ids: Sequence[str]) -> dict[str, str]:
    """Return ``first_id`` and ``last_id`` of a page; neither of an empty one."""
    return {"first_id": ids[0], "last_id": ids[-1]} if ids else {}


def _usage(order: Order, bill: Bill) -> BatchUsage | None:
    """Return what an order came to, once anything of it is verified or it is charged."""
    ended = order.status not in OPEN_STATUSES
    if not order.samples_verified and not (ended and bill.charged):
        return None
    return BatchUsage(
        input_tokens=order.prompt_tokens,
        output_tokens=order.tokens_verified,
        cost_nano_usd=bill.charged,
    )
