"""The report of an order whose generation is over, from its row. Pure."""

from collections.abc import Mapping
from typing import Any

from gateway.ledger.charges import price_of
from gateway.orders.report import AuditTally, report
from gateway.store.tables import Order
from protocol.manifest import Counts


def order_report(order: Order, audit: AuditTally, evaluation: Mapping[str, Any] | None) -> bytes:
    """Return ``report.json`` of an order's delivery.

    Args:
        audit: of all samples that are delivered.
        evaluation: what its grading came to; None where it has no grader.
    """
    return report(
        order_id=order.id,
        status=order.ending or "",
        model=order.model,
        revision=order.revision,
        counts=counts_of(order),
        price=price_of(order),
        audit=audit.figures(order.samples_void),
        evaluation=evaluation,
    )


def counts_of(order: Order) -> Counts:
    """Return what an order came to, once its generation is over."""
    return Counts(
        lines_total=order.lines_total,
        lines_refused=order.lines_refused,
        lines_completed=order.lines_completed,
        samples_total=order.samples_total,
        samples_delivered=order.samples_verified,
        samples_missing=order.samples_total - order.samples_verified,
        prompt_tokens=order.prompt_tokens,
        completion_tokens=order.tokens_verified,
    )
