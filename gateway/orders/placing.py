"""Placing an order: its objects are stored first, then its row says that it is."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

import structlog
from sqlmodel import and_, col, func, select
from sqlmodel.ext.asyncio.session import AsyncSession

from gateway.catalog.price import Price
from gateway.errors import GatewayError
from gateway.ledger.money import nano_of, usd_of
from gateway.ledger.transfers import hold
from gateway.orders.content import remove_content, store_content
from gateway.orders.policy import HOUR, Policy
from gateway.orders.quote import Quote
from gateway.orders.rows import lock_account
from gateway.store.engine import Store
from gateway.store.tables import (
    OPEN_STATUSES,
    DatasetQuote,
    Dialect,
    File,
    Order,
    OrderStatus,
    QuoteStage,
    new_id,
)
from gateway.store.unnamed import Naming

log = structlog.get_logger("gateway.orders")


@dataclass(frozen=True)
class Placement:
    """What an order needs besides its quote.

    Attributes:
        metadata: the batch's metadata as given, or None.
        idempotency_key: the request's key, or None.
        body_sha256: hex digest of the parsed request body.
        drawn_seed: 53 random bits, used where the file sets no seed.
        kept: the kept quote that the order is placed on, whose id it takes; or None.
    """

    input_file_id: str
    dialect: Dialect
    completion_window_hours: int
    metadata: Mapping[str, str] | None
    idempotency_key: str | None
    body_sha256: str
    drawn_seed: int
    kept: DatasetQuote | None = None


async def find_idempotent(
    store: Store, account_id: str, key: str, body_sha256: str
) -> Order | None:
    """Return the order that an earlier request with this key placed, or None.

    Raises:
        GatewayError: 409 ``idempotency_conflict`` where that request had another body.
    """
    async with store.read() as session:
        return await _find(session, account_id, key, body_sha256)


async def place(
    store: Store, account_id: str, quote: Quote, placement: Placement, policy: Policy, now_ms: int
) -> Order:
    """Place an order on a quote and reserve its price, or do neither.

    A request with a known idempotency key gets that key's order.

    The quote's folder is left to the caller.

    Raises:
        GatewayError: 409 ``idempotency_conflict``; 402 ``price_above_max``; 429 ``order_limit``
            when the account has as many open orders as it may; 409 ``order_refused`` when the input
            file was deleted; 409 ``quote_ordered`` or ``quote_expired``; 402
            ``insufficient_balance``; 503 ``gateway_busy``.
    """
    _check_ceiling(quote.price, placement.metadata)
    order = _order(account_id, quote, placement, now_ms)
    if placement.kept is not None:
        # Its objects are stored, and stay for another try.
        return await _insert(store, order, quote.price, policy)
    naming = Naming()
    await store_content(store.objects, order.id, quote.intake.folder)
    try:
        placed = await _insert(store, order, quote.price, policy, naming)
    except GatewayError:
        # Only where it is sure that no row refers to them; a broken connection does not tell.
        await remove_content(store.objects, order.id)
        raise
    if placed is not order:
        await remove_content(store.objects, order.id)
    return placed


async def _insert(
    store: Store, order: Order, price: Price, policy: Policy, naming: Naming | None = None
) -> Order:
    """Insert ``order`` and its hold, or return the order that its idempotency key placed."""
    async with store.write() as session:
        # Placing waits in line for each account, so that no twin and no limit is passed.
        await lock_account(session, order.account_id)
        if order.idempotency_key is not None:
            first = await _find(session, order.account_id, order.idempotency_key, order.body_sha256)
            if first is not None:
                return first
        if order.dialect == Dialect.NATIVE:
            await _check_quote(session, order)
        await _check_limit(session, order.account_id, policy)
        await _check_input(session, order.input_file_id)
        if naming is not None:
            naming.check()
        session.add(order)
        await session.flush()
        await hold(session, order.account_id, order.id, price.reserved, order.created_at_ms)
    store.announce_news()
    log.info(
        "order placed",
        order_id=order.id,
        model=order.model,
        lines=order.lines_usable,
        samples=order.samples_total,
    )
    return order


def _check_ceiling(price: Price, metadata: Mapping[str, str] | None) -> None:
    ceiling = (metadata or {}).get("max_price_usd")
    if ceiling is not None and price.reserved > nano_of(ceiling):
        raise GatewayError(
            402,
            "price_above_max",
            f"The price of {usd_of(price.reserved)} USD is above max_price_usd, {ceiling} USD; "
            "nothing was reserved.",
            "metadata.max_price_usd",
        )


async def _check_quote(session: AsyncSession, order: Order) -> None:
    """Refuse an order on a kept quote that is over or was ordered (the account is locked)."""
    if await session.get(Order, order.id) is not None:
        message = "This quote was ordered; ask for another one to order again."
        raise GatewayError(409, "quote_ordered", message, "quote_id", final=True)
    kept = await session.get(DatasetQuote, order.id)
    if kept is None or kept.stage != QuoteStage.OPEN or kept.expires_at_ms <= order.created_at_ms:
        message = "This quote has expired, or made room for newer ones; ask for a new one."
        raise GatewayError(409, "quote_expired", message, "quote_id", final=True)


async def _check_limit(session: AsyncSession, account_id: str, policy: Policy) -> None:
    # One that was cancelled before it began is over but for the account of its lines.
    over = and_(col(Order.status) == OrderStatus.CANCELLING, col(Order.in_progress_at_ms).is_(None))
    statement = (
        select(func.count())
        .select_from(Order)
        .where(col(Order.account_id) == account_id, col(Order.status).in_(OPEN_STATUSES), ~over)
    )
    if (await session.exec(statement)).one() >= policy.open_orders:
        raise GatewayError(
            429,
            "order_limit",
            f"The account has {policy.open_orders} open orders; wait until one ends.",
            final=True,
        )


async def _check_input(session: AsyncSession, file_id: str) -> None:
    """Refuse an order on a file that was deleted while it was quoted (the account is locked)."""
    statement = select(File.deleted_at_ms).where(col(File.id) == file_id)
    if (await session.exec(statement)).one_or_none() is not None:
        raise GatewayError(
            409, "order_refused", "The input file was deleted meanwhile.", "input_file_id"
        )


async def _find(session: AsyncSession, account_id: str, key: str, body_sha256: str) -> Order | None:
    statement = select(Order).where(
        col(Order.account_id) == account_id, col(Order.idempotency_key) == key
    )
    first = (await session.exec(statement)).one_or_none()
    if first is not None and first.body_sha256 != body_sha256:
        raise GatewayError(
            409,
            "idempotency_conflict",
            "This Idempotency-Key was used with another request body; take a fresh key.",
            "Idempotency-Key",
            final=True,
        )
    return first


def _order(account_id: str, quote: Quote, placement: Placement, now_ms: int) -> Order:
    intake, facts = quote.intake, quote.facts
    sampling = intake.sampling
    metadata, kept = placement.metadata, placement.kept
    return Order(
        id=new_id() if kept is None else kept.id,
        account_id=account_id,
        input_file_id=placement.input_file_id,
        quoted_at_ms=quote.created_at,
        dialect=placement.dialect,
        endpoint=intake.endpoint,
        completion_window_hours=placement.completion_window_hours,
        metadata_json=None if metadata is None else json.dumps(dict(metadata)),
        idempotency_key=placement.idempotency_key,
        body_sha256=placement.body_sha256,
        price_json=quote.price.to_json(),
        model=facts.model,
        revision=facts.revision,
        architecture=facts.architecture,
        vocabulary_size=facts.vocabulary_size,
        end_ids_json=json.dumps(list(facts.end_ids)),
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        top_k=sampling.top_k,
        min_p=sampling.min_p,
        max_tokens=sampling.max_tokens,
        n=intake.n,
        seed=placement.drawn_seed if intake.seed is None else intake.seed,
        seed_drawn=intake.seed is None,
        created_at_ms=now_ms,
        expires_at_ms=now_ms + placement.completion_window_hours * HOUR,
        lines_total=intake.total_lines,
        lines_refused=intake.refused_lines,
        lines_usable=intake.usable_lines,
        prompt_tokens=intake.prompt_tokens,
        longest_prompt=intake.longest_prompt,
        samples_total=intake.usable_lines * intake.n,
        output_format=None if kept is None else kept.output_format,
        max_new_tokens=None if kept is None else kept.max_new_tokens,
    )
