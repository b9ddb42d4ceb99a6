"""An order as the native routes show it."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from gateway.api.models import UUID, ContractObject, Endpoint, MaybeSeconds, Queue, Seconds
from gateway.api.native_examples import FILE_ID, MODEL, ORDER_ID, REVISION, SHA256
from gateway.api.native_pricing import Usd
from gateway.figures import MinerFigures
from gateway.ledger.charges import Bill
from gateway.orders.evaluation import grader_of
from gateway.store.tables import Order, OrderStatus

State = Literal[
    "queued",
    "running",
    "exporting",
    "cancelling",
    "delivered",
    "expired",
    "cancelled",
    "failed",
]
STATES: dict[OrderStatus, State] = {
    OrderStatus.VALIDATING: "queued",
    OrderStatus.IN_PROGRESS: "running",
    OrderStatus.FINALIZING: "exporting",
    OrderStatus.CANCELLING: "cancelling",
    OrderStatus.COMPLETED: "delivered",
    OrderStatus.EXPIRED: "expired",
    OrderStatus.CANCELLED: "cancelled",
    OrderStatus.FAILED: "failed",
}


class SamplingTerms(ContractObject):
    """The sampling of all lines; ``top_k`` 0 is no limit."""

    temperature: float
    top_p: float
    top_k: int
    min_p: float
    max_tokens: int


class Progress(ContractObject):
    """How far an order is.

    ``lines_total`` counts the lines that are not blank, ``lines_completed`` those with all their
    samples. ``prompt_tokens`` counts each usable line's prompt once. ``samples_void`` were refused
    by the audit and generated again, ``samples_missing`` will not be delivered.
    """

    lines_total: int
    lines_refused: int
    lines_completed: int
    samples_total: int
    samples_verified: int
    samples_void: int
    samples_missing: int
    prompt_tokens: int
    tokens_verified: int


class Miner(ContractObject):
    """The samples of one miner in an order, by the outcome of their audit."""

    hotkey: str
    verified: int
    void: int
    inconclusive: int
    tokens: int


class Failure(ContractObject):
    """Why an order failed."""

    code: str
    message: str


class GradedSamples(ContractObject):
    """The samples of an evaluation by what became of them; ``missing`` ones are failures.

    ``ungraded`` could not be compared, through no fault of theirs.
    """

    total: int
    correct: int
    incorrect: int
    missing: int
    ungraded: int


class Evaluation(ContractObject):
    """What an evaluation came to, by the rule of its grader.

    ``status`` is ``pending`` until the order is delivered, ``not_graded`` where it ended without
    a delivery. ``pass_at_1`` is the mean over ``lines_graded``; null where there are none.
    """

    grader: str
    status: Literal["pending", "graded", "not_graded"]
    pass_at_1: float | None
    lines: int
    lines_graded: int
    samples: GradedSamples | None


class DeliveryFile(ContractObject):
    """A file of a delivery; ``url`` is a path on this server and takes ranges."""

    name: str
    kind: Literal["output", "errors", "receipts", "grades", "report", "manifest"]
    bytes: Annotated[int, Field(ge=0)]
    sha256: str
    url: str


class Delivery(ContractObject):
    """What was delivered of an order."""

    id: str
    object: Literal["delivery"]
    format: Literal["parquet", "openai_jsonl"]
    files: list[DeliveryFile]


class RedressShown(ContractObject):
    """What was given back after the end, because delivered samples failed a second look.

    A validator that had judged them alone was found out, so another one judged them again.
    ``at`` is when the last of these looks ended.
    """

    samples_failed: int
    tokens_failed: int
    refunded_usd: Usd
    at: Seconds


class DatasetOrder(ContractObject):
    """An order, placed through whichever API.

    ``state`` is the order's own, ``status`` that of its batch: ``queued`` validating, ``running``
    in_progress, ``exporting`` finalizing, ``cancelling`` cancelling, ``delivered`` completed,
    ``expired``, ``cancelled`` and ``failed`` the same. ``queue`` tells where a queued order stands
    in line. ``receipts`` is true once there is a delivery with receipts. ``price_usd`` was reserved
    when it was placed; ``charged_usd`` is what it comes to so far, and what it came to once it has
    ended; ``refunded_usd`` is what was given back, null while it is open. ``redress`` tells of what
    was given back later, which both of them count.
    """

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "id": ORDER_ID,
                    "object": "dataset_order",
                    "batch_id": f"batch_{ORDER_ID}",
                    "state": "delivered",
                    "status": "completed",
                    "placed_through": "native",
                    "created_at": 1_762_685_000,
                    "in_progress_at": 1_762_685_060,
                    "ended_at": 1_762_686_000,
                    "expires_at": 1_763_289_800,
                    "price_usd": "1.921093211",
                    "charged_usd": "1.921070939",
                    "refunded_usd": "0.000022272",
                    "redress": None,
                    "input_file_id": FILE_ID,
                    "endpoint": "/v1/chat/completions",
                    "output_format": "parquet",
                    "grader": None,
                    "model": MODEL,
                    "revision": REVISION,
                    "architecture": "Qwen3ForCausalLM",
                    "seed": 7,
                    "seed_drawn": False,
                    "sampling": {
                        "temperature": 0.6,
                        "top_p": 0.95,
                        "top_k": 20,
                        "min_p": 0.0,
                        "max_tokens": 64,
                    },
                    "n": 1,
                    "progress": {
                        "lines_total": 2,
                        "lines_refused": 0,
                        "lines_completed": 2,
                        "samples_total": 2,
                        "samples_verified": 2,
                        "samples_void": 0,
                        "samples_missing": 0,
                        "prompt_tokens": 41,
                        "tokens_verified": 12,
                    },
                    "miners": [
                        {
                            "hotkey": "5FnaLnMQh6CD11QWFgekhqN7muSkfCnWvyLLx6XgXN67UvZW",
                            "verified": 2,
                            "void": 0,
                            "inconclusive": 0,
                            "tokens": 12,
                        }
                    ],
                    "queue": None,
                    "failure": None,
                    "evaluation": None,
                    "output_file_id": None,
                    "error_file_id": None,
                    "receipts": True,
                    "deliveries": [
                        {
                            "id": f"dl-{ORDER_ID}",
                            "object": "delivery",
                            "format": "parquet",
                            "files": [
                                {
                                    "name": "part-00000.parquet",
                                    "kind": "output",
                                    "bytes": 20_480,
                                    "sha256": SHA256,
                                    "url": f"/api/v1/dataset-orders/{ORDER_ID}/deliveries/"
                                    f"dl-{ORDER_ID}/files/part-00000.parquet",
                                }
                            ],
                        }
                    ],
                }
            ]
        },
    )

    id: Annotated[str, Field(pattern=f"^{UUID}$")]
    object: Literal["dataset_order"]
    batch_id: str
    state: State
    status: Literal[
        "validating",
        "in_progress",
        "finalizing",
        "cancelling",
        "completed",
        "expired",
        "cancelled",
        "failed",
    ]
    placed_through: Literal["openai", "openrelay", "native"]
    created_at: Seconds
    in_progress_at: MaybeSeconds
    ended_at: MaybeSeconds
    expires_at: Seconds
    price_usd: Usd
    charged_usd: Usd
    refunded_usd: Usd | None
    redress: RedressShown | None
    input_file_id: str
    endpoint: Endpoint
    output_format: Literal["parquet", "openai_jsonl"]
    grader: str | None
    model: str
    revision: str
    architecture: str
    seed: int
    seed_drawn: bool
    sampling: SamplingTerms
    n: int
    progress: Progress
    miners: list[Miner]
    queue: Queue | None
    failure: Failure | None
    evaluation: Evaluation | None
    output_file_id: str | None
    error_file_id: str | None
    receipts: bool
    deliveries: list[Delivery]


class DatasetOrderList(ContractObject):
    """A page of orders, newest first."""

    object: Literal["list"]
    data: list[DatasetOrder]
    first_id: str | None
    last_id: str | None
    has_more: bool


def order_object(
    order: Order,
    miners: Sequence[MinerFigures],
    bill: Bill,
    queue: Queue | None,
    deliveries: list[Delivery],
    evaluation: dict[str, Any] | None,
) -> DatasetOrder:
    """Return an order as its customer sees it.

    Args:
        miners: the audit's figures.
        bill: its money.
        queue: where it stands in line; shown only while it waits to start.
        deliveries: what was delivered, none or one.
        evaluation: what it came to; None where it is no evaluation.
    """
    status = OrderStatus(order.status)
    return DatasetOrder.model_validate(
        {
            "id": order.id,
            "object": "dataset_order",
            "batch_id": f"batch_{order.id}",
            "state": STATES[status],
            "status": order.status,
            "placed_through": order.dialect,
            "created_at": order.created_at_ms // 1000,
            "in_progress_at": _seconds(order.in_progress_at_ms),
            "ended_at": _seconds(ended_at_ms(order)),
            "expires_at": order.expires_at_ms // 1000,
            **bill.members(),
            "redress": None if bill.redress is None else bill.redress.members(),
            "input_file_id": order.input_file_id,
            "endpoint": order.endpoint,
            "output_format": order.output_format or "openai_jsonl",
            "grader": grader_of(order),
            "model": order.model,
            "revision": order.revision,
            "architecture": order.architecture,
            "seed": order.seed,
            "seed_drawn": order.seed_drawn,
            "sampling": {name: getattr(order, name) for name in SamplingTerms.model_fields},
            "n": order.n,
            "progress": {name: getattr(order, name) for name in Progress.model_fields},
            "miners": [asdict(figures) for figures in miners],
            "queue": queue if status == OrderStatus.VALIDATING else None,
            "failure": None
            if order.failure_code is None
            else {"code": order.failure_code, "message": order.failure_message or ""},
            "evaluation": evaluation,
            "output_file_id": order.output_file_id,
            "error_file_id": order.error_file_id,
            "receipts": order.receipts_key is not None,
            "deliveries": deliveries,
        }
    )


def ended_at_ms(order: Order) -> int | None:
    """Return when an order ended, as Unix milliseconds; None while it is open."""
    ends = (
        order.completed_at_ms,
        order.expired_at_ms,
        order.cancelled_at_ms,
        order.failed_at_ms,
    )
    return next((at for at in ends if at is not None), None)


def _seconds(milliseconds: int | None) -> int | None:
    return None if milliseconds is None else milliseconds // 1000
