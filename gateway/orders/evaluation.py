"""What an order shows of its evaluation."""

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from gateway.orders.content import object_key
from gateway.store.objects import ObjectExists, ObjectMissing, Objects
from gateway.store.tables import OPEN_STATUSES, Order

GRADER = "reliquary_grader"
# What the native order shows; the report of the delivery, which is signed for, holds the same.
EVALUATION = "evaluation.json"


def grader_of(order: Order) -> str | None:
    """Return the grader of an order; None where it is no evaluation."""
    return json.loads(order.metadata_json or "{}").get(GRADER)


async def keep_evaluation(
    objects: Objects, order: Order, evaluation: Mapping[str, Any] | None
) -> None:
    """Keep what an order's grading came to, for ``evaluation_of``; nothing where it is None."""
    if evaluation is None:
        return
    content = json.dumps(evaluation, separators=(",", ":")).encode("ascii")
    # An exporter that died may have stored the very same.
    with suppress(ObjectExists):
        await objects.put(object_key(order.id, EVALUATION), content)


async def evaluation_of(objects: Objects, order: Order) -> dict[str, Any] | None:
    """Return what a native order shows of its evaluation; None where it is none.

    ``pending`` until it is delivered; ``not_graded`` where it ended without a delivery, or was
    delivered by a gateway that graded nothing.
    """
    grader = grader_of(order)
    if grader is None:
        return None
    ended = order.status not in OPEN_STATUSES
    if ended and order.receipts_key is not None:
        with suppress(ObjectMissing):
            return json.loads(await objects.get(object_key(order.id, EVALUATION)))
    return {
        "grader": grader,
        "status": "not_graded" if ended else "pending",
        "pass_at_1": None,
        "lines": order.lines_usable,
        "lines_graded": 0,
        "samples": None,
    }
