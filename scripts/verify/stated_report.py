"""``report.json`` of a delivery, made again from what was checked before it."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gateway.catalog.price import Price
from gateway.orders.report import AuditTally, report
from protocol.manifest import REPORT, Statement
from scripts.verify.answers import check_record
from scripts.verify.discrepancy import Discrepancy, difference
from scripts.verify.files import read_whole

MAX_REPORT_BYTES = 16 * 1024 * 1024


def check_report(
    delivery: Path,
    statement: Statement,
    audit: AuditTally,
    evaluation: Mapping[str, Any] | None,
) -> Mapping[str, Any] | None:
    """Check the report of a delivery and return its money; None where the order cost nothing.

    The number of void samples and the price are the gateway's word; all else must follow.

    Args:
        audit: what the receipts came to.
        evaluation: what the grades came to; None where there are none.

    Raises:
        Discrepancy: the first member that does not follow.
        Uncheckable: it cannot be read.
    """
    check_record(delivery, REPORT, statement.files[REPORT])
    content = read_whole(delivery, REPORT, MAX_REPORT_BYTES)
    stated = _object(content)
    price = _price(stated.get("money"), statement)
    expected = report(
        order_id=statement.order_id,
        status=statement.status,
        model=statement.model,
        revision=statement.revision,
        counts=statement.counts,
        price=price,
        audit=audit.figures(_samples_void(stated)),
        evaluation=evaluation,
    )
    if content != expected:
        found = difference(json.loads(expected), stated)
        field, message = found or (None, "is not in its canonical form")
        raise Discrepancy(REPORT, message, field=field)
    return stated["money"]


def _object(content: bytes) -> dict[str, Any]:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise Discrepancy(REPORT, "is no JSON object")
    return value


def _samples_void(stated: Mapping[str, Any]) -> int:
    audit = stated.get("audit")
    void = audit.get("samples_void") if isinstance(audit, dict) else None
    if type(void) is not int or void < 0:
        raise Discrepancy(REPORT, "is no whole number", field="audit.samples_void")
    return void


def _price(money: Any, statement: Statement) -> Price | None:
    """Return the price that the report states, which must be one of this order."""
    if money is None:
        return None
    try:
        price = Price.model_validate(money["price"])
    except (ValueError, TypeError, KeyError, IndexError):
        raise Discrepancy(REPORT, "is no price", field="money.price") from None
    due = {
        "prompt_tokens": statement.counts.prompt_tokens,
        "samples": statement.counts.samples_total,
        "max_tokens": int(statement.sampling["max_tokens"]),
    }
    found = difference(due, {name: getattr(price, name) for name in due})
    if found is not None:
        raise Discrepancy(REPORT, found[1], field=f"money.price.{found[0]}")
    return price
