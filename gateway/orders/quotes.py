"""The limit on quotes: an account makes so many in any 24 hours."""

from sqlmodel import col, delete, func, select

from gateway.errors import GatewayError
from gateway.orders.policy import HOUR, SECOND, Policy
from gateway.orders.rows import lock_account
from gateway.store.engine import Store
from gateway.store.tables import Quote

WINDOW_MS = 24 * HOUR
# A client that is told to come again later than this gives up.
MAX_RETRY_SECONDS = 60


async def count_quote(store: Store, account_id: str, policy: Policy, now_ms: int) -> None:
    """Count a quote that the account just made.

    Raises:
        GatewayError: 429 ``rate_limited`` when it made all that the last 24 hours allow.
    """
    mine = col(Quote.account_id) == account_id
    async with store.write() as session:
        # Quotes of one account wait in line, so that none passes the limit beside another.
        await lock_account(session, account_id)
        await session.exec(
            delete(Quote).where(mine, col(Quote.created_at_ms) <= now_ms - WINDOW_MS)
        )
        statement = select(func.count(), func.min(Quote.created_at_ms)).where(mine)
        made, oldest_ms = (await session.exec(statement)).one()
        if made < policy.quotes_per_day:
            session.add(Quote(account_id=account_id, created_at_ms=now_ms))
            return
    seconds = (oldest_ms + WINDOW_MS - now_ms) // SECOND + 1
    raise GatewayError(
        429,
        "rate_limited",
        f"The account made {made} quotes in the last 24 hours, of {policy.quotes_per_day} allowed; "
        f"the next is possible in {seconds:,} seconds.",
        retry_after=min(seconds, MAX_RETRY_SECONDS),
    )
