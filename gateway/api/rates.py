"""Limits on callers: a rate for every proven hotkey, transfers at once, a budget for bodies."""

import math
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from gateway.errors import GatewayError

MAX_BUCKETS = 4_096
TRANSFER_RETRY_SECONDS = 5


@dataclass
class _Bucket:
    tokens: float
    filled_at: float


class RateLimit:
    """Lets every key pass ``per_second`` times a second on average, ``burst`` times at once.

    Args:
        clock: seconds, never running backwards.
    """

    def __init__(self, per_second: float, burst: int, clock: Callable[[], float]) -> None:
        self._per_second = per_second
        self._burst = burst
        self._clock = clock
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def take(self, key: str) -> None:
        """Count one request of ``key``.

        Raises:
            GatewayError: 429 ``rate_limited`` with the seconds until the next one may pass.
        """
        now = self._clock()
        bucket = self._buckets.setdefault(key, _Bucket(self._burst, now))
        self._buckets.move_to_end(key)
        if len(self._buckets) > MAX_BUCKETS:
            self._buckets.popitem(last=False)
        gained = (now - bucket.filled_at) * self._per_second
        bucket.tokens = min(self._burst, bucket.tokens + gained)
        bucket.filled_at = now
        if bucket.tokens < 1:
            wait = math.ceil((1 - bucket.tokens) / self._per_second)
            raise GatewayError(
                429, "rate_limited", "This hotkey sends too many requests.", retry_after=wait
            )
        bucket.tokens -= 1


class AtOnce:
    """Lets every key have ``limit`` things of one kind under way at once.

    Args:
        kind: their name in the plural.
    """

    def __init__(self, limit: int, kind: str) -> None:
        self._limit = limit
        self._kind = kind
        self._under_way: Counter[str] = Counter()

    @contextmanager
    def enter(self, key: str) -> Iterator[None]:
        """Count one of ``key`` while it is under way.

        Raises:
            GatewayError: 429 ``rate_limited``.
        """
        if self._under_way[key] >= self._limit:
            raise GatewayError(
                429,
                "rate_limited",
                f"{self._limit} {self._kind} are under way; wait until one of them ends.",
                retry_after=TRANSFER_RETRY_SECONDS,
            )
        self._under_way[key] += 1
        try:
            yield
        finally:
            self._under_way[key] -= 1
            if not self._under_way[key]:
                del self._under_way[key]


class BodyBudget:
    """Bounds the bytes of all bodies of nodes that are held in memory at once."""

    def __init__(self, limit: int) -> None:
        self._free = limit

    @contextmanager
    def open(self) -> Iterator["Reservation"]:
        """Give a reservation of nothing yet; what it takes is given back at the end."""
        held = Reservation(self)
        try:
            yield held
        finally:
            self._free += held.size

    def take(self, size: int) -> None:
        """Take ``size`` bytes out of the budget.

        Raises:
            GatewayError: 503 ``gateway_busy``; the sender comes again in a moment.
        """
        if size > self._free:
            raise GatewayError(
                503, "gateway_busy", "Too many large requests at once.", retry_after=2
            )
        self._free -= size


class Reservation:
    """The part of a budget that one body holds; it grows as the body arrives."""

    def __init__(self, budget: BodyBudget) -> None:
        self._budget = budget
        self.size = 0

    def take(self, size: int) -> None:
        """Take ``size`` more bytes.

        Raises:
            GatewayError: as ``BodyBudget.take``.
        """
        self._budget.take(size)
        self.size += size
