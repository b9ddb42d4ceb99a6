"""Orders: what was asked for, how far it is, and how it ended."""

from enum import StrEnum

from sqlalchemy import CheckConstraint, Index, UniqueConstraint

from gateway.store.tables.base import Table, big, new_id, one_of, real, text, word
from gateway.store.tables.quotes import OutputFormat


class OrderStatus(StrEnum):
    """The states of a batch, in the API's own words."""

    VALIDATING = "validating"
    IN_PROGRESS = "in_progress"
    FINALIZING = "finalizing"
    CANCELLING = "cancelling"
    COMPLETED = "completed"
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    FAILED = "failed"


OPEN_STATUSES = (
    OrderStatus.VALIDATING,
    OrderStatus.IN_PROGRESS,
    OrderStatus.FINALIZING,
    OrderStatus.CANCELLING,
)


class Ending(StrEnum):
    """The final status that an order is being exported for; set when its generation stops."""

    COMPLETED = "completed"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


class Dialect(StrEnum):
    """The API that an order was placed through."""

    OPENAI = "openai"
    OPENRELAY = "openrelay"
    NATIVE = "native"


class Order(Table, table=True):
    """An order over the usable lines of one file.

    Lines are counted from 0 over the usable ones. Sample ``line * n + choice`` of the order is its
    *ordinal*. ``cursor_line`` is the next line that no unit holds yet. ``seed_drawn`` tells that
    the file set no seed. ``quoted_at_ms`` is the clock that chat templates saw. ``expires_at_ms``
    is the end of the window, ``expired_at_ms`` the time at which the order ended so. ``price_json``
    is the price that was quoted (``gateway/catalog/price.py``), whatever becomes of the price file.
    A native order has its ``output_format``, and the ``max_new_tokens`` of lines that set none; its
    id is that of the kept quote that it was placed on. ``export_holder`` is the fencing token of
    the exporter at work, valid until ``export_until_ms``.
    """

    __table_args__ = (
        one_of("status", OrderStatus),
        one_of("ending", Ending),
        one_of("dialect", Dialect),
        one_of("output_format", OutputFormat),
        CheckConstraint("n BETWEEN 1 AND 64", name="n"),
        CheckConstraint("seed BETWEEN 0 AND 9007199254740991", name="seed"),
        CheckConstraint("cursor_line BETWEEN 0 AND lines_usable", name="cursor"),
        CheckConstraint("lines_usable * n = samples_total", name="samples"),
        CheckConstraint("lines_completed BETWEEN 0 AND lines_usable", name="lines"),
        CheckConstraint("samples_verified >= 0 AND samples_missing >= 0", name="counts"),
        CheckConstraint("samples_verified + samples_missing <= samples_total", name="total"),
        UniqueConstraint("account_id", "idempotency_key"),
        Index(None, "account_id", "created_at_ms", "id"),
        Index(None, "status", "expires_at_ms"),
    )

    id: str = word(primary_key=True, default_factory=new_id)
    account_id: str = word(foreign_key="accounts.id")
    input_file_id: str = word()
    quoted_at_ms: int = big()
    dialect: str = word()
    endpoint: str = word()
    completion_window_hours: int
    metadata_json: str | None = text(None)
    idempotency_key: str | None = word(None)
    body_sha256: str = word()
    price_json: str | None = text(None)

    model: str = word()
    revision: str = word()
    architecture: str = word()
    vocabulary_size: int = big()
    end_ids_json: str = text()
    output_format: str | None = word(None)
    max_new_tokens: int | None = big(None)
    temperature: float = real()
    top_p: float = real()
    top_k: int = big()
    min_p: float = real()
    max_tokens: int = big()
    n: int
    seed: int = big()
    seed_drawn: bool

    status: str = word(OrderStatus.VALIDATING)
    ending: str | None = word(None)
    created_at_ms: int = big()
    expires_at_ms: int = big()
    in_progress_at_ms: int | None = big(None)
    finalizing_at_ms: int | None = big(None)
    cancelling_at_ms: int | None = big(None)
    completed_at_ms: int | None = big(None)
    expired_at_ms: int | None = big(None)
    cancelled_at_ms: int | None = big(None)
    failed_at_ms: int | None = big(None)
    failure_code: str | None = word(None)
    failure_message: str | None = text(None)

    lines_total: int = big()
    lines_refused: int = big()
    lines_usable: int = big()
    prompt_tokens: int = big()
    longest_prompt: int = big()
    samples_total: int = big()
    cursor_line: int = big(0)
    lines_completed: int = big(0)
    samples_verified: int = big(0)
    samples_missing: int = big(0)
    samples_void: int = big(0)
    tokens_verified: int = big(0)

    export_holder: str | None = word(None)
    export_until_ms: int | None = big(None)
    export_tries: int = big(0)
    output_file_id: str | None = word(None)
    error_file_id: str | None = word(None)
    receipts_key: str | None = word(None)
