"""Which order goes first: deadlines, then fairness between customers. Pure.

An order is urgent when what is left of it takes up most of what is left of its window, at the speed
of all nodes together, and can still be done. Urgent orders go before the others, the one that ends
first before all; but what is done in a moment passes them, since it costs them nothing. Among the
others the customer goes first that has the least leased now and was served the least of late.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gateway.orders.policy import SECOND

# Of what is left of its window: an order that takes more is urgent.
URGENT_SHARE = 0.5
# Of the least room that urgent orders have to spare: an order that takes less passes them.
PASSING_SHARE = 0.01


@dataclass(frozen=True)
class Candidate:
    """An order that has work to be leased.

    Attributes:
        tokens: that it has yet to be leased, estimated.
        expires_at_ms: end of its window, Unix milliseconds.
    """

    order_id: str
    account_id: str
    tokens: float
    expires_at_ms: int


def ranked(
    candidates: Sequence[Candidate], served: Mapping[str, float], speed: float | None, now_ms: int
) -> list[Candidate]:
    """Return the candidates, those that go first before the others.

    Args:
        served: tokens of each account that are leased now or were of late; none is 0.
        speed: tokens a second of all nodes together; None where nobody knows, then none is urgent.
    """

    def seconds_left(one: Candidate) -> float:
        return (one.expires_at_ms - now_ms) / SECOND

    def fair(one: Candidate) -> tuple[float, int, str]:
        return (served.get(one.account_id, 0.0), one.expires_at_ms, one.order_id)

    if not speed:
        return sorted(candidates, key=fair)
    takes = {one.order_id: one.tokens / speed for one in candidates}
    urgent = [
        one
        for one in candidates
        if URGENT_SHARE * seconds_left(one) < takes[one.order_id] <= seconds_left(one)
    ]
    if not urgent:
        return sorted(candidates, key=fair)
    hasty = {one.order_id for one in urgent}
    spare = min(seconds_left(one) - takes[one.order_id] for one in urgent)

    def rank(one: Candidate) -> tuple[int, tuple[float, int, str]]:
        if one.order_id in hasty:
            return 1, (0.0, one.expires_at_ms, one.order_id)
        return (0 if takes[one.order_id] <= PASSING_SHARE * spare else 2), fair(one)

    return sorted(candidates, key=rank)
