"""Quotes that are kept: what was read of a file, stored once, to be ordered within a day."""

import asyncio
import json
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from sqlmodel import and_, col, or_, select
from sqlmodel.ext.asyncio.session import AsyncSession

from gateway.errors import GatewayError
from gateway.intake.outcome import PREVIEW_LINES, PREVIEWS, REFUSED
from gateway.orders.content import content_bytes, remove_content, store_content
from gateway.orders.policy import HOUR, Policy
from gateway.orders.quote import Quote
from gateway.orders.rows import lock_account
from gateway.store.engine import Store
from gateway.store.tables import DatasetQuote, Order, OutputFormat, QuoteStage, new_id

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
    store: Store,
    account_id: str,
    input_file_id: str,
    quote: Quote,
    terms: Terms,
    policy: Policy,
    now_ms: int,
) -> DatasetQuote:
    """Keep a quote for ``LIFE_MS``; its folder is left to the caller.

    The oldest quotes of the account that nobody ordered make room for it.
    """
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
        bytes=await asyncio.to_thread(content_bytes, quote.intake.folder),
        stage=QuoteStage.STORING,
    )
    async with store.write() as session:
        # Quotes of one account wait in line, so that none takes the room of another's.
        await lock_account(session, account_id)
        await _make_room(session, account_id, policy.kept_quote_bytes - row.bytes, now_ms)
        session.add(row)
    await store_content(store.objects, row.id, quote.intake.folder)
    async with store.write() as session:
        stored = await session.get_one(DatasetQuote, row.id)
        stored.stage = QuoteStage.OPEN
        session.add(stored)
    # What was dropped is swept away.
    store.announce_news()
    return stored


async def _make_room(session: AsyncSession, account_id: str, room: int, now_ms: int) -> None:
    """Drop the oldest quotes of an account, locked, until the others fit into ``room`` bytes.

    What was ordered is its order's, and what is still being stored is as new as can be.
    """
    ordered = select(Order.id).where(col(Order.id) == col(DatasetQuote.id)).exists()
    statement = (
        select(DatasetQuote)
        .where(
            col(DatasetQuote.account_id) == account_id,
            col(DatasetQuote.stage).in_((QuoteStage.STORING, QuoteStage.OPEN)),
            ~ordered,
        )
        .order_by(col(DatasetQuote.created_at_ms), col(DatasetQuote.id))
    )
    kept = (await session.exec(statement)).all()
    over = sum(one.bytes for one in kept) - room
    for one in kept:
        if over > 0 and one.stage == QuoteStage.OPEN:
            one.stage, one.expires_at_ms = QuoteStage.DROPPED, min(one.expires_at_ms, now_ms)
            session.add(one)
            over -= one.bytes


async def find_quote(store: Store, account_id: str, quote_id: str) -> tuple[DatasetQuote, bool]:
    """Return a kept quote of the account, and whether it was ordered.

    Raises:
        GatewayError: 404 ``quote_not_found``, the same for unknown, foreign and removed ones.
    """
    async with store.read() as session:
        row = await session.get(DatasetQuote, quote_id)
        ordered = await session.get(Order, quote_id) is not None
    if row is None or row.account_id != account_id or row.stage == QuoteStage.STORING:
        raise GatewayError(404, "quote_not_found", "There is no such quote.", "quote_id")
    return row, ordered


def read_quote(row: DatasetQuote) -> Quote:
    """Return a kept quote as it was made; its files are objects now, so its folder is none."""
    value = json.loads(row.quote_json)
    value["intake"]["folder"] = "."
    return _QUOTE.validate_python(value)


async def sweep(store: Store, now_ms: int) -> None:
    """Remove the quotes that expired, and the objects of those that nobody ordered.

    A dropped quote loses its objects at once and stays until it is long over, to be told as
    expired. Objects go before their row: a killed process leaves nothing that is not swept again.
    """
    over = now_ms - GRACE_MS
    half_stored = and_(
        col(DatasetQuote.stage) == QuoteStage.STORING, col(DatasetQuote.created_at_ms) <= over
    )
    swept = or_(
        col(DatasetQuote.expires_at_ms) <= over,
        col(DatasetQuote.stage) == QuoteStage.DROPPED,
        half_stored,
    )
    async with store.read() as session:
        rows = (await session.exec(select(DatasetQuote).where(swept).limit(SWEPT_AT_ONCE))).all()
        ids = [row.id for row in rows]
        orders = set((await session.exec(select(Order.id).where(col(Order.id).in_(ids)))).all())
    for found in rows:
        if found.id not in orders:
            await remove_content(store.objects, found.id)
        async with store.write() as session:
            row = await session.get(DatasetQuote, found.id)
            if row is None:
                continue
            if found.expires_at_ms > over and found.stage == QuoteStage.DROPPED:
                row.stage = QuoteStage.GONE
                session.add(row)
            else:
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
