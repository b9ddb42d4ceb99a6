"""How large a unit is. Pure: the numbers come in, a number of lines goes out."""

from collections.abc import Sequence
from math import ceil

from gateway.orders.policy import SECOND, Policy
from gateway.orders.sizes import expected_tokens
from gateway.store.tables import Order
from protocol.messages import MAX_UNIT_SAMPLES


def unit_lines(
    order: Order, policy: Policy, node_samples: int, share: float, speed: float | None = None
) -> int:
    """Return how many of the order's next lines a unit takes; at least one, none is ever split.

    Args:
        node_samples: the most samples that the node takes at once.
        share: the node's part of the work, above 0 and at most 1, see ``share_of``.
        speed: tokens a second of the node by what it answered of late; None where that is unknown.
    """
    rest = order.lines_usable - order.cursor_line
    wanted = policy.unit_samples
    if wanted is None:
        wanted = min(node_samples, ceil(rest * share) * order.n)
        if speed is not None:
            in_time = speed * policy.unit_ms / SECOND / max(expected_tokens(order), 1.0)
            wanted = min(wanted, ceil(in_time))
    # Bounded by the longest prompt, since lines are cut without reading them.
    tokens_per_line = order.longest_prompt + order.n * order.max_tokens
    lines = min(
        wanted // order.n,
        policy.unit_tokens // tokens_per_line,
        MAX_UNIT_SAMPLES // order.n,
        rest,
    )
    return max(1, lines)


def share_of(speed: float | None, others: Sequence[float | None]) -> float:
    """Return a miner's part of the rest of an order, so that all end at about the same time.

    Args:
        speed: its tokens per second; None where nothing is known, which counts as the mean.
        others: the same of the other live miners of the model.
    """
    known = [value for value in (speed, *others) if value]
    mean = sum(known) / len(known) if known else 1.0
    total = sum(value or mean for value in (speed, *others))
    return (speed or mean) / total
