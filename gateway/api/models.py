"""The objects of the OpenAI-compatible Batch API, exactly as the contract has them.

Members that the contract allows to be absent are left out where they have no value; those that it
requires have no default, so that whoever builds an object states each of them, nulls included.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema
from pydantic.json_schema import SkipJsonSchema

UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"

METADATA_SCHEMA = {
    "type": ["object", "null"],
    "maxProperties": 16,
    "propertyNames": {"maxLength": 64},
    "additionalProperties": {"type": "string", "maxLength": 512},
    "properties": {
        "revision": {"type": "string", "pattern": "^[0-9a-f]{40}$"},
        "model": {
            "type": "string",
            "pattern": "^[A-Za-z0-9][A-Za-z0-9_.-]{0,95}/[A-Za-z0-9][A-Za-z0-9_.-]{0,95}$",
        },
        "max_price_usd": {"type": "string"},
        "reliquary_grader": {"enum": ["boxed_math_v1", "exact_match_v1"]},
    },
}

Metadata = Annotated[dict[str, str] | None, WithJsonSchema(METADATA_SCHEMA)]

# A member that may be absent: left out of the answer where it has no value.
Absent: Any = Field(default=None, exclude_if=lambda value: value is None)

Seconds = Annotated[int, Field(ge=0, description="Unix seconds.")]
MaybeSeconds = Annotated[int, Field(ge=0)] | None
Endpoint = Literal["/v1/chat/completions", "/v1/completions"]
BatchStatus = Literal[
    "validating",
    "in_progress",
    "finalizing",
    "completed",
    "expired",
    "cancelling",
    "cancelled",
    "failed",
]


class ContractObject(BaseModel):
    """Base of all objects of the contract: no member beyond those declared."""

    model_config = ConfigDict(extra="forbid")


class ErrorDetail(ContractObject):
    """What was wrong."""

    message: str
    type: Literal[
        "invalid_request_error",
        "authentication_error",
        "not_found_error",
        "rate_limit_error",
        "server_error",
    ]
    param: str | None
    code: str | None


class Error(ContractObject):
    """OpenAI's error shape."""

    error: ErrorDetail


class UploadProgress(ContractObject):
    """A native multi-part upload still in progress."""

    part_size: Annotated[int, Field(ge=1)]
    parts: Annotated[int, Field(ge=1)]


class File(ContractObject):
    """An input file (purpose batch) or a batch's output or error file (batch_output)."""

    id: Annotated[str, Field(pattern=rf"^file-(?:(?:out|err)-)?{UUID}$")]
    object: Literal["file"]
    bytes: Annotated[int, Field(ge=0)]
    created_at: Seconds
    filename: Annotated[str, Field(min_length=1, max_length=255)]
    purpose: Literal["batch", "batch_output"]
    status: Literal["uploading", "processed"]
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = Absent
    upload: UploadProgress | SkipJsonSchema[None] = Absent


class FileList(ContractObject):
    """The 100 most recent input files, newest first."""

    object: Literal["list"]
    data: Annotated[list[File], Field(max_length=100)]
    has_more: Literal[False]


class RequestCounts(ContractObject):
    """Lines of the file: all, those with all their samples, those refused or left short."""

    total: Annotated[int, Field(ge=0)]
    completed: Annotated[int, Field(ge=0)]
    failed: Annotated[int, Field(ge=0)]


class BatchError(ContractObject):
    """Why a batch failed."""

    code: str
    message: str
    param: None
    line: None


class BatchErrors(ContractObject):
    """The errors of a failed batch."""

    object: Literal["list"]
    data: list[BatchError]


class Queue(ContractObject):
    """Where a batch that waits to start stands in line."""

    queue_position: Annotated[int, Field(ge=1, le=2**53 - 1)]
    estimated_start_at: Annotated[str, Field(max_length=40)] | None
    reason: Literal["waiting_for_capacity", "daily_capacity_reached"] | None


class Batch(ContractObject):
    """A batch; its id is ``batch_`` and the id of its order."""

    id: Annotated[str, Field(pattern=rf"^batch_{UUID}$")]
    object: Literal["batch"]
    endpoint: Endpoint
    errors: BatchErrors | None
    input_file_id: str
    completion_window: Annotated[str, Field(pattern=r"^[0-9]{1,3}h$")]
    status: BatchStatus
    output_file_id: Annotated[str, Field(pattern=rf"^file-out-{UUID}$")] | None
    error_file_id: Annotated[str, Field(pattern=rf"^file-err-{UUID}$")] | None
    created_at: Seconds
    in_progress_at: MaybeSeconds
    expires_at: Seconds
    finalizing_at: MaybeSeconds
    completed_at: MaybeSeconds
    failed_at: MaybeSeconds
    expired_at: MaybeSeconds
    cancelling_at: MaybeSeconds
    cancelled_at: MaybeSeconds
    request_counts: RequestCounts
    metadata: Metadata
    reliquary_queue: Queue | SkipJsonSchema[None] = Absent


class BatchList(ContractObject):
    """A page of batches, newest first."""

    object: Literal["list"]
    data: Annotated[list[Batch], Field(max_length=100)]
    first_id: str | None
    last_id: str | None
    has_more: bool
