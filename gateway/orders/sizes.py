"""How many tokens there are to expect, before they are generated."""

from typing import Any

from sqlalchemy import ColumnElement
from sqlmodel import col, func

from gateway.store.tables import Order

# Of ``max_tokens``, where no sample of an order is verified yet.
GUESSED_SHARE = 0.5


def tokens_a_sample() -> ColumnElement[Any]:
    """Return SQL for the tokens of a sample of an order: its verified ones tell, else a guess."""
    measured = col(Order.tokens_verified) * 1.0 / func.nullif(col(Order.samples_verified), 0)
    return func.coalesce(measured, col(Order.max_tokens) * GUESSED_SHARE)


def expected_tokens(order: Order) -> float:
    """Return the same of one order."""
    if order.samples_verified:
        return order.tokens_verified / order.samples_verified
    return order.max_tokens * GUESSED_SHARE
