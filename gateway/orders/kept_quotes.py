"""Quotes that are kept: what was read of a file, stored once, to be ordered within a day."""

import asyncio
import json
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from sqlmodel import col, select

from gateway.errors import GatewayError
from gateway.intake.outcome import PREVIEW_LINES, PREVIEWS, REFUSED
from gateway.orders.content import remove_content, store_content
from gateway.orders.policy import HOUR
from gateway.orders.quote import Quote
from gateway.store.engine import Store
from gateway.store.tables import DatasetQuote, Order, OutputFormat, new_id

LIFE_MS = 24 * HOUR
# No clock of a replica is as far behind, so that nobody orders what is being removed.
GRACE_MS = HOUR
LINE_ERRORS = 100
SWEPT_AT_ONCE = 20

_QUOTE = TypeAdapter(Quote)


@dataclass(frozen=True)
class Terms:
    """What was asked for beside the file: how, and by when, an order on the quote is delivered."""

    completion_window_hours: int
    output_format: OutputFormat
    grader: str | None
    max_new_tokens: int | None


async def keep_quote(
    store: Store, account_id: str, input_file_id: str, quote: Quote, terms: Terms, now_ms: int
) -> DatasetQuote:
    """Keep a quote for ``LIFE_MS``; its folder is left to the caller."""
    row = DatasetQuote(
        id=new_id(),
        account_id=account_id,
        input_file_id=input_file_id,
        created_at_ms=now_ms,
        expires_at_ms=now_ms + LIFE_MS,
        completion_window_hours=terms.completion_window_hours,
        output_format=terms.output_format,
        grader=terms.grader,
        max_new_tokens=terms.max_new_tokens,
        quote_json=_QUOTE.dump_json(quote, exclude={"intake": {"folder"}}).decode(),
        line_errors_json=json.dumps(await _line_errors(quote.intake.folder)),
        preview_json=json.dumps(await _first_rows(quote.intake.folder / PREVIEWS, PREVIEW_LINES)),
    )
    await store_content(store.objects, row.id, quote.intake.folder)
    async with store.write() as session:
        session.add(row)
    return row


async def find_quote(store: Store, account_id: str, quote_id: str) -> tuple[DatasetQuote, bool]:
    """Return a kept quote of the account, and whether it was ordered.

    Raises:
        GatewayError: 404 ``quote_not_found``, the same for unknown, foreign and removed ones.
    """
    async with store.read() as session:
        row = await session.get(DatasetQuote, quote_id)
        ordered = await session.get(Order, quote_id) is not None
    if row is None or row.account_id != account_id:
        raise GatewayError(404, "quote_not_found", "There is no such quote.", "quote_id")
    return row, ordered


def read_quote(row: DatasetQuote) -> Quote:
    """Return a kept quote as it was made; its files are objects now, so its folder is none."""
    value = json.loads(row.quote_json)
    value["intake"]["folder"] = "."
    return _QUOTE.validate_python(value)


async def sweep(store: Store, now_ms: int) -> None:
    """Remove the quotes that expired, and the objects of those that nobody ordered.

    Objects go before their row: a killed process leaves nothing that is not swept again.
    """
    expired = (
        select(DatasetQuote.id)
        .where(col(DatasetQuote.expires_at_ms) <= now_ms - GRACE_MS)
        .limit(SWEPT_AT_ONCE)
    )
    async with store.read() as session:
        ids = (await session.exec(expired)).all()
        orders = set((await session.exec(select(Order.id).where(col(Order.id).in_(ids)))).all())
    for quote_id in ids:
        if quote_id not in orders:
            await remove_content(store.objects, quote_id)
        async with store.write() as session:
            row = await session.get(DatasetQuote, quote_id)
            if row is not None:
                await session.delete(row)


async def _line_errors(folder: Path) -> list[dict[str, Any]]:
    return [
        {"line": row["line"], "custom_id": row["custom_id"], **row["error"]}
        for row in await _first_rows(folder / REFUSED, LINE_ERRORS)
    ]


async def _first_rows(path: Path, limit: int) -> list[dict[str, Any]]:
    """Return the first ``limit`` objects of a JSONL file."""

    def read() -> list[dict[str, Any]]:
        with path.open(encoding="ascii") as file:
            return [json.loads(line) for line in islice(file, limit)]

    return await asyncio.to_thread(read)
