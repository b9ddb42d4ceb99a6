"""What must hold of a gateway's money, computed apart from the gateway's own formula."""

import json
from collections import Counter
from fractions import Fraction
from math import ceil

from sqlmodel import col, select

from gateway.ledger.check import check
from gateway.store.engine import Store
from gateway.store.tables import OPEN_STATUSES, Order, Review, Transfer, Verdict


def owed(order: Order, tokens: int) -> int:
    """Return what an order that ended must have been charged, in nano-USD."""
    if order.price_json is None or tokens == 0 or order.status == "failed":
        return 0
    price = json.loads(order.price_json)
    hours = Fraction(price["startup_seconds"] + price["run_seconds"], 3_600)
    parts = ceil(price["gpus"] * price["gpu_hour_nano"] * hours)
    parts += price["prompt_tokens"] * price["prompt_token_nano"]
    parts += tokens * price["completion_token_nano"]
    with_margin = ceil(parts * Fraction(100 + price["margin_percent"], 100))
    return max(price["minimum_nano"], with_margin)


async def check_money(store: Store) -> dict[str, int]:
    """Check the books and every charge; return what each ended order was charged."""
    report = await check(store)
    assert report.faults == []
    async with store.read() as session:
        orders = (await session.exec(select(Order))).all()
        verdicts = (await session.exec(select(Verdict))).all()
        signs = {"capture": 1, "refund": -1}
        moved = (await session.exec(select(Transfer).where(col(Transfer.kind).in_(signs)))).all()
        reviews = (await session.exec(select(Review))).all()
    captured = Counter[str | None]()
    for one in moved:
        captured[one.order_id] += signs[one.kind] * one.amount_nano
    charged = {}
    for order in orders:
        if order.status not in OPEN_STATUSES and order.price_json is not None:
            tokens = sum(one.tokens for one in verdicts if one.order_id == order.id)
            # What failed after its delivery was given back.
            tokens -= sum(one.failed_tokens or 0 for one in reviews if one.order_id == order.id)
            charged[order.id] = captured.pop(order.id, 0)
            assert charged[order.id] == owed(order, tokens)
    # Nothing else was charged to anybody.
    assert not captured
    if all(order.status not in OPEN_STATUSES for order in orders):
        assert report.reserved == 0
    return charged
