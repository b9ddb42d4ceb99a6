"""Quotes: how many an account made, and those that are kept to be ordered."""

from enum import StrEnum

from sqlalchemy import Index

from gateway.store.tables.base import Table, big, new_id, one_of, text, word


class Quote(Table, table=True):
    """A quote that was made, for the limit of an account's quotes a day."""

    __table_args__ = (Index(None, "account_id", "created_at_ms"),)

    id: str = word(primary_key=True, default_factory=new_id)
    account_id: str = word(foreign_key="accounts.id")
    created_at_ms: int = big()


class OutputFormat(StrEnum):
    """What the answers of a native order are delivered as."""

    PARQUET = "parquet"
    OPENAI_JSONL = "openai_jsonl"


class QuoteStage(StrEnum):
    """How far the objects of a kept quote are.

    The row comes before them, so that a killed process leaves nothing that nobody knows of. A
    dropped quote made room for newer ones; once its objects are removed it is ``gone``.
    """

    STORING = "storing"
    OPEN = "open"
    DROPPED = "dropped"
    GONE = "gone"


class DatasetQuote(Table, table=True):
    """A quote that is kept until ``expires_at_ms``, to be ordered once.

    ``bytes`` are those of its objects.

    Its objects are those of an order: the order that is placed on it takes its id, and so nothing
    is rendered, tokenized or stored twice. ``quote_json`` is all of the quote but its folder
    (``gateway/orders/kept_quotes.py``), ``line_errors_json`` and ``preview_json`` are lists of
    bounded length.
    """

    __table_args__ = (
        one_of("output_format", OutputFormat),
        one_of("stage", QuoteStage),
        Index(None, "account_id", "created_at_ms", "id"),
    )

    id: str = word(primary_key=True, default_factory=new_id)
    account_id: str = word(foreign_key="accounts.id")
    input_file_id: str = word()
    created_at_ms: int = big()
    expires_at_ms: int = big(index=True)
    completion_window_hours: int
    output_format: str = word()
    grader: str | None = word(None)
    max_new_tokens: int | None = big(None)
    quote_json: str = text()
    line_errors_json: str = text()
    preview_json: str = text()
    bytes: int = big()
    stage: str = word()
