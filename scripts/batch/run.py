"""One run: upload, quote, order, wait, fetch; each step is kept, so that a rerun goes on."""

import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol

from scripts.batch import upload
from scripts.batch.access import Access
from scripts.batch.gateway import LONG_TIMEOUT_S, BatchError, Gateway, Unanswered
from scripts.batch.record import RunRecord
from scripts.fetch import FetchError, fetch

POLL_SECONDS = 2.0
# A gateway that restarts, or a night without a network, ends no run.
PATIENCE_SECONDS = 15 * 60.0
ENDED = ("delivered", "expired", "cancelled", "failed")
STALE = ("quote_expired", "quote_not_found", "not_found", "file_not_found")


class Screen(Protocol):
    """What a run tells its customer."""

    def uploaded(self, done: int, total: int) -> None:
        """Show how many bytes are uploaded."""

    def resumed(self, order: dict[str, Any]) -> None:
        """Say that the order was placed by an earlier run."""

    def accept(self, quote: dict[str, Any]) -> bool:
        """Show a quote and ask whether to order it."""
        ...

    def progressed(self, order: dict[str, Any]) -> None:
        """Show how far an order is."""

    def waits(self, reason: str) -> None:
        """Say that the gateway does not answer for now."""

    def fetched(self, name: str, done: int, total: int) -> None:
        """Show how many bytes of a file are there."""


class Declined(BatchError):
    """The customer did not accept the quote; nothing was ordered."""


def run(
    access: Access,
    path: Path,
    out: Path,
    asked: RunRecord,
    screen: Screen,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> dict[str, Any]:
    """Order a file and fetch its delivery into ``out``; return the ended order.

    Args:
        asked: what is wanted; where ``out`` has the record of the same run, that goes on.
        sleep, clock: seconds.

    Raises:
        BatchError: it cannot go on; what was done is kept.
        OSError: the file or the folder cannot be used.
    """
    record = RunRecord.read(out)
    record = asked if record is None else record.continued(asked)
    with Gateway(access.base_url, access.api_key) as gateway:
        order = _order(gateway, path, out, record, screen)
        order = _wait(gateway, order, screen, sleep, clock)
    if order["state"] == "failed":
        failure = order["failure"] or {}
        raise BatchError(f"the order failed: {failure.get('message')} [{failure.get('code')}]")
    if not order["receipts"]:
        raise BatchError(f"the order is {order['state']}: it has no delivery")
    try:
        fetch(access.base_url, access.api_key, order["batch_id"], out, screen.fetched)
    except FetchError as error:
        raise BatchError(str(error)) from error
    return order


def _order(
    gateway: Gateway, path: Path, out: Path, record: RunRecord, screen: Screen
) -> dict[str, Any]:
    """Return the order of a run, placed now or before."""
    if record.quote_id is not None:
        order = _unless_stale(gateway, f"/dataset-orders/{record.quote_id}")
        if order is not None:
            screen.resumed(order)
            return order
    quote = _quote(gateway, path, out, record, screen)
    if not screen.accept(quote):
        raise Declined("nothing was ordered")
    # Kept before it is asked for, so that a killed run never orders twice.
    record.ordered = True
    record.write(out)
    try:
        return gateway.call(
            "POST",
            "/dataset-orders",
            body={"quote_id": quote["id"]},
            headers={"Idempotency-Key": f"run-{sha256(quote['id'].encode()).hexdigest()[:40]}"},
        )
    except Unanswered:
        raise
    except BatchError:
        record.ordered = False
        record.write(out)
        raise


def _quote(
    gateway: Gateway, path: Path, out: Path, record: RunRecord, screen: Screen
) -> dict[str, Any]:
    """Return an open quote on the file, that of an earlier try where there is one."""
    if record.quote_id is not None:
        quote = _unless_stale(gateway, f"/dataset-orders/quotes/{record.quote_id}")
        if quote is not None and quote["status"] == "open":
            return quote
    _upload(gateway, path, out, record, screen)
    body = {
        "model": record.model,
        "revision": record.revision,
        "input_file_id": record.file_id,
        "output_format": record.output_format,
        "completion_window": record.completion_window,
    }
    if record.grader is not None:
        body["grader"] = record.grader
    quote = gateway.call("POST", "/dataset-orders/quotes", body=body, timeout_s=LONG_TIMEOUT_S)
    record.quote_id = quote["id"]
    record.write(out)
    return quote


def _upload(gateway: Gateway, path: Path, out: Path, record: RunRecord, screen: Screen) -> None:
    kept = record.file_id
    if kept is None or _unless_stale(gateway, f"/files/{kept}") is None:
        record.file_id = file_id = upload.begin(gateway, path)
        record.write(out)
    else:
        file_id = kept
    upload.send(gateway, file_id, path, screen.uploaded)


def _unless_stale(gateway: Gateway, path: str) -> dict[str, Any] | None:
    try:
        return gateway.get(path)
    except BatchError as error:
        if error.code in STALE:
            return None
        raise


def _wait(
    gateway: Gateway,
    order: dict[str, Any],
    screen: Screen,
    sleep: Callable[[float], None],
    clock: Callable[[], float],
) -> dict[str, Any]:
    """Poll until an order has ended."""
    heard_at = clock()
    while order["state"] not in ENDED:
        screen.progressed(order)
        sleep(POLL_SECONDS)
        try:
            order = gateway.get(f"/dataset-orders/{order['id']}")
            heard_at = clock()
        except Unanswered as error:
            if clock() - heard_at > PATIENCE_SECONDS:
                raise
            screen.waits(str(error))
    screen.progressed(order)
    return order
