"""How exports fail: tried again a little later, and in the end the order fails, and says so.

A failed order delivers no answers. Its error file still names every line of its input, the refused
ones with their reasons, so that none of them is lost without a word.
"""

import asyncio
import tempfile
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

import structlog
from sqlmodel.ext.asyncio.session import AsyncSession

from gateway.intake.outcome import LINES
from gateway.orders import transitions
from gateway.orders.content import object_key
from gateway.orders.delivery import Written, heading_of, objects_of, refused_entries
from gateway.orders.delivery_lines import Line, Sample, missing_line, refused_line
from gateway.orders.policy import SECOND, Policy
from gateway.orders.rows import lock_order
from gateway.orders.stored_files import file_row, put_once
from gateway.store.engine import Store
from gateway.store.tables import File, Order, OrderStatus
from protocol.repository import RepositoryError

log = structlog.get_logger("gateway.export")

EXPORTED = (OrderStatus.FINALIZING, OrderStatus.CANCELLING)
BACK_OFF_MS = 5 * SECOND
NOT_DONE = "not-done.jsonl"


async def note_failure(
    store: Store,
    order_id: str,
    holder: str | None,
    error: BaseException,
    scratch: Path,
    policy: Policy,
    now_ms: int,
) -> None:
    """Count a failed export: it is tried again a little later, and in the end the order fails.

    Where another has taken the order over meanwhile, the failure counts for nothing.

    Args:
        holder: who exported it until now; None where nobody did.
        scratch: folder for files at work.
    """
    async with store.write() as session:
        order = await _lock_held(session, order_id, holder)
        if order is None:
            return
        order.export_holder = None
        order.export_tries += 1
        order.export_until_ms = now_ms + BACK_OFF_MS * 2 ** (order.export_tries - 1)
        session.add(order)
    if order.export_tries < policy.export_tries:
        return
    # Whatever keeps the file from being written, the order ends.
    (errors,) = await asyncio.gather(
        _stored_errors(store, order, scratch, now_ms), return_exceptions=True
    )
    if isinstance(errors, BaseException):
        log.error("no error file for a failed order", order_id=order_id, exc_info=errors)
        errors = None
    code, message = _failure(error)
    async with store.write() as session:
        locked = await _lock_held(session, order_id, None)
        if locked is None:
            return
        if errors is not None:
            session.add(errors)
        await transitions.fail(session, locked, code, message, errors and errors.id, now_ms)


async def _lock_held(session: AsyncSession, order_id: str, holder: str | None) -> Order | None:
    """Return an order that waits for its export, locked; None unless ``holder`` exports it."""
    order = await lock_order(session, order_id)
    if order is None or order.status not in EXPORTED or order.export_holder != holder:
        return None
    return order


async def _stored_errors(store: Store, order: Order, scratch: Path, now_ms: int) -> File:
    """Write and store the error file of an order that fails; return the row that names it."""
    heading = heading_of(order)
    with tempfile.TemporaryDirectory(prefix="failed-", dir=scratch) as folder:
        with Written(Path(folder) / NOT_DONE) as written:
            async for entry in refused_entries(store, order):
                written.write(refused_line(heading, entry))
            async with aclosing(_undone(store, order)) as lines:
                async for line in lines:
                    written.write(missing_line(heading, line))
        key = object_key(order.id, NOT_DONE)
        await put_once(store.objects, key, written.path, written.bytes)
    return file_row(order, "err", "errors", written, key, now_ms)


async def _undone(store: Store, order: Order) -> AsyncGenerator[Line[Sample], None]:
    async with aclosing(objects_of(store.objects, order.id, LINES)) as entries:
        index = 0
        async for entry in entries:
            yield Line(index, entry["custom_id"], 0, {})
            index += 1


def _failure(error: BaseException) -> tuple[str, str]:
    if isinstance(error, RepositoryError):
        return "model_unavailable", "The files of the pinned model commit cannot be read any more."
    return "export_failed", "The delivery could not be written."
