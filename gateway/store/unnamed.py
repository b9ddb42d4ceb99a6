"""Objects that no row names: what a killed process left between an object and its row.

An object is written before the row that names it, so one without a row may be about to get it.
Two rules keep the two apart, whatever stands still meanwhile: nothing is removed before it is
``UNNAMED_MS`` old, and ``Naming`` refuses to name what was begun a fraction of that ago. What only
a live lease or an unfinished delivery could name is kept as long as that may be.

What is older than the database's first account is another database's, and stays: whoever opens an
empty one beside a full store, by a wrong URL, loses nothing.
"""

import re
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence

from sqlmodel import col, func, select
from sqlmodel.ext.asyncio.session import AsyncSession

from gateway.errors import GatewayError
from gateway.store.engine import Store
from gateway.store.objects import DRAFTS
from gateway.store.tables import (
    OPEN_STATUSES,
    Account,
    DatasetQuote,
    DeliveredFile,
    Epoch,
    File,
    Lease,
    LeaseState,
    Order,
    UploadPart,
)

UNNAMED_MS = 24 * 3_600_000
NAMED_WITHIN_SECONDS = 3_600.0
ID_LENGTH = 36
# Anything else is not the gateway's, and is left alone.
_KEY = re.compile(
    r"drafts/[^/]+|files/[^/]+|uploads/[^/]+/[^/]+|epochs/\d+-[^/]+|orders/[^/]+/.+", re.ASCII
)


class Naming:
    """Bounds the time from the first object, before which it is made, to the row that names it."""

    def __init__(self) -> None:
        self._begun = time.time()

    def check(self) -> None:
        """Refuse to name the objects if they may be swept; asked within the transaction.

        Raises:
            GatewayError: 503 ``gateway_busy``.
        """
        if time.time() - self._begun > NAMED_WITHIN_SECONDS:
            message = "The gateway stood still meanwhile; send the request again."
            raise GatewayError(503, "gateway_busy", message, retry_after=1)


async def sweep(store: Store, now_ms: int) -> int:
    """Remove the objects that no row will ever name; return how many there were.

    Args:
        now_ms: by the clock that the objects' times are of, not one that was set for a test.
    """
    async with store.read() as session:
        begun_ms = (await session.exec(select(func.min(Account.created_at_ms)))).one()
    if begun_ms is None:
        return 0
    removed = 0
    async for page in store.objects.listed():
        old = defaultdict(list)
        for key, written_ms in page:
            if begun_ms <= written_ms <= now_ms - UNNAMED_MS and _KEY.fullmatch(key):
                old[key.partition("/")[0]].append(key)
        for kind, keys in old.items():
            for key in await _KINDS[kind](store, keys):
                await store.objects.delete(key)
                removed += 1
    return removed


async def _drafts(store: Store, keys: Sequence[str]) -> list[str]:
    # A draft is renamed once it is whole; one that is gone by then fails its request.
    return list(keys)


async def _files(store: Store, keys: Sequence[str]) -> list[str]:
    statement = select(File.object_key).where(
        col(File.object_key).in_(keys), col(File.deleted_at_ms).is_(None)
    )
    async with store.read() as session:
        named = set((await session.exec(statement)).all())
    return [key for key in keys if key not in named]


async def _uploads(store: Store, keys: Sequence[str]) -> list[str]:
    statement = select(UploadPart.object_key).where(
        col(UploadPart.file_id).in_({key.split("/")[1] for key in keys})
    )
    async with store.read() as session:
        named = set((await session.exec(statement)).all())
    return [key for key in keys if key not in named]


async def _epochs(store: Store, keys: Sequence[str]) -> list[str]:
    # The record of an epoch that has none yet may be stored already.
    numbers = {key: int(key.partition("/")[2].partition("-")[0]) for key in keys}
    statement = select(Epoch.number, Epoch.object_key).where(
        col(Epoch.number).in_(set(numbers.values()))
    )
    async with store.read() as session:
        named = dict((await session.exec(statement)).all())
    return [key for key, number in numbers.items() if named.get(number, key) != key]


async def _orders(store: Store, keys: Sequence[str]) -> list[str]:
    ids = {key.split("/")[1] for key in keys}
    async with store.read() as session:
        statement = select(Order.id, Order.status).where(col(Order.id).in_(ids))
        orders: dict[str, str] = dict((await session.exec(statement)).all())
        quoted = select(DatasetQuote.id).where(col(DatasetQuote.id).in_(ids))
        quotes = set((await session.exec(quoted)).all())
        unnamed, answers, delivered = [], [], []
        for key in keys:
            _, order_id, first, *_ = key.split("/")
            if order_id not in orders:
                unnamed += [] if order_id in quotes else [key]
            elif first in ("results", "verdicts"):
                answers.append(key)
            elif first == "delivery" and orders[order_id] not in OPEN_STATUSES:
                delivered.append(key)
        unnamed += await _answers(session, answers)
        unnamed += await _delivered(session, delivered)
    return unnamed


async def _answers(session: AsyncSession, keys: Sequence[str]) -> list[str]:
    """Return the results and verdicts that their lease, which is over, did not end with."""
    leases = {key: key.rpartition("/")[2][:ID_LENGTH] for key in keys}
    statement = select(Lease.id, Lease.object_key).where(
        col(Lease.id).in_(set(leases.values())), col(Lease.state) != LeaseState.LIVE
    )
    over = dict((await session.exec(statement)).all())
    return [key for key, lease in leases.items() if lease in over and over[lease] != key]


async def _delivered(session: AsyncSession, keys: Sequence[str]) -> list[str]:
    """Return the files of no delivery, of orders that ended."""
    statement = select(DeliveredFile.object_key).where(
        col(DeliveredFile.order_id).in_({key.split("/")[1] for key in keys})
    )
    named = set((await session.exec(statement)).all())
    return [key for key in keys if key not in named]


_KINDS: dict[str, Callable[[Store, Sequence[str]], Awaitable[list[str]]]] = {
    DRAFTS: _drafts,
    "files": _files,
    "uploads": _uploads,
    "epochs": _epochs,
    "orders": _orders,
}
