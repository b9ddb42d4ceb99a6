"""Which model a node holds: one rule for miners and validators, over the demand board.

Loading takes minutes, so what is loaded stays while there is work of it. A model that waits and
that nobody holds comes before all others; else nodes spread over models by what each node of one
would have to do. No node knows what the others choose, so each draws by its own hotkey, tells what
it is going to load, and looks once more before it does.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from math import log
from typing import Final, Protocol

from protocol.messages import DemandBoard, LoadedModel

# What loading takes, where it was never measured.
LOAD_SECONDS: Final = 60.0
# A model that others wait for is not kept for longer than this many loadings, or this long.
SLICE_LOADS: Final = 20.0
SLICE_SECONDS: Final = 600.0
# What is due so soon after the time that it takes goes first.
SPARE_SECONDS: Final = 600.0
# How often a busy node looks at the board, and how much its latest work moves its speed.
LOOK_SECONDS: Final = 60.0
SPEED_WEIGHT: Final = 0.3
# A node that finds nothing worth loading looks again after this long at most.
REST_SECONDS: Final = 15.0
# The others' announcements take this long to show on the board.
SHOWN_SECONDS: Final = 0.3


@dataclass(frozen=True)
class Offer:
    """Work of one model commit, as nodes of one role see it.

    Attributes:
        ready: tokens that wait for the role now.
        coming: tokens that will, once others have done their part.
        holders: live nodes of the role that hold the model or load it.
        deadline: the earliest end of an order's window, Unix seconds.
    """

    model: LoadedModel
    ready: int
    coming: int
    holders: int
    deadline: float

    @property
    def tokens(self) -> int:
        """All that there is to do."""
        return self.ready + self.coming


@dataclass(frozen=True)
class Standing:
    """How a node stands; times in seconds.

    Attributes:
        hotkey: what its draws are made by.
        loaded: what it holds.
        held: since it was loaded.
        idle: since it had work last, or loaded a model.
        patience: how long it is idle before it loads another model.
        loading: what loading a model takes here.
        speed: tokens a second that it does; None where that was never measured.
    """

    hotkey: str
    loaded: LoadedModel | None
    held: float
    idle: float
    patience: float
    loading: float = LOAD_SECONDS
    speed: float | None = None


def choose(offers: Sequence[Offer], node: Standing, now: float) -> LoadedModel | None:
    """Return the model that a node should hold: what it has, where nothing is worth a change.

    Args:
        offers: of the models that it can load, what it holds among them.
        now: Unix seconds.
    """
    mine = next((offer for offer in offers if offer.model == node.loaded), None)
    others = [offer for offer in offers if offer.model != node.loaded and offer.tokens]
    orphans = [offer for offer in others if not offer.holders]
    waiting = [offer for offer in orphans if offer.ready]
    if node.loaded is not None and node.idle < max(node.patience, _least_idle(node, mine)):
        if mine is None or not mine.tokens:
            return node.loaded
        leaves = [offer for offer in waiting if _goes_before(offer, mine, node, now)]
        return _drawn(leaves, node, now) or node.loaded
    worth = [offer for offer in others if offer.holders and _is_worth_joining(offer, node)]
    for some in (waiting, orphans, worth):
        if some:
            return _drawn(some, node, now)
    return node.loaded


def _least_idle(node: Standing, mine: Offer | None) -> float:
    """Return how long a node is idle at least: as long as it loads, where its model has work."""
    return node.loading if mine is not None and mine.tokens else 0.0


def _goes_before(orphan: Offer, mine: Offer, node: Standing, now: float) -> bool:
    """Say whether a model that nobody holds is worth leaving one that there is work of."""
    if node.held < node.loading:
        return False
    if mine.holders > 1 or node.held >= max(SLICE_SECONDS, SLICE_LOADS * node.loading):
        return True
    return _is_pressing(orphan, node, now) and not _is_pressing(mine, node, now)


def _is_pressing(offer: Offer, node: Standing, now: float) -> bool:
    takes = node.loading + (offer.tokens / node.speed if node.speed else 0.0)
    return offer.deadline - now < 2 * takes + SPARE_SECONDS


def _is_worth_joining(offer: Offer, node: Standing) -> bool:
    """Say whether a node's part of the work is more than it could have done while it loads."""
    return offer.tokens / (offer.holders + 1) >= node.loading * (node.speed or 0.0)


def _drawn(offers: Sequence[Offer], node: Standing, now: float) -> LoadedModel | None:
    """Draw a model by what each of its nodes has to do a second (rendezvous hashing, weighted)."""

    def rank(offer: Offer) -> float:
        left = max(offer.deadline - now, node.loading, 1.0)
        weight = offer.tokens / (offer.holders + 1) / left
        return weight / -log(share_of(f"{node.hotkey} {offer.model.model}@{offer.model.revision}"))

    return max(offers, key=rank).model if offers else None


def share_of(name: str) -> float:
    """Return a number between 0 and 1, both excluded, made of a name."""
    return (int.from_bytes(sha256(name.encode()).digest()[:6], "big") + 0.5) / 2**48


class Shown(Protocol):
    """What a node reads the board from: the gateway, by its client."""

    async def demand(self, wait_seconds: float = 0) -> DemandBoard:
        """Return the demand board; while it is empty, wait so long for work."""
        ...


class Placement:
    """What one node remembers for its choice.

    Args:
        hotkey: the node's.
        patience: see ``Standing``.
        pause: at most so long, in seconds, it waits for others before it looks once more, and at
            least so long where there is nothing to do.
        offers: reads the board for the node's role; leaves out what it cannot load.
        clock: seconds that only grow.
        now: Unix seconds.
    """

    def __init__(
        self,
        hotkey: str,
        patience: float,
        pause: float,
        offers: Callable[[DemandBoard], Sequence[Offer]],
        clock: Callable[[], float],
        now: Callable[[], float],
    ) -> None:
        self._hotkey = hotkey
        self._patience = patience
        self._pause = pause
        self._offers = offers
        self._clock = clock
        self._now = now
        self._rest = pause
        self._offered = False
        self._loaded: LoadedModel | None = None
        self._held_since = self._worked_at = self._looked_at = clock()
        self._loading = LOAD_SECONDS
        self._speed: float | None = None

    @property
    def is_due(self) -> bool:
        """Whether a node that always has work should look at the board once more."""
        return self._clock() - self._looked_at >= LOOK_SECONDS

    def note_work(self, tokens: int, seconds: float) -> None:
        """Note that a unit was done."""
        self._worked_at = self._clock()
        if tokens and seconds > 0:
            speed, known = tokens / seconds, self._speed
            self._speed = speed if known is None else known + SPEED_WEIGHT * (speed - known)

    def note_loaded(self, loaded: LoadedModel | None, seconds: float | None = None) -> None:
        """Note what is loaded from now on, and how long that took."""
        if loaded != self._loaded:
            self._speed = None
        self._loaded = loaded
        self._held_since = self._worked_at = self._clock()
        self._rest = self._pause
        if seconds is not None:
            self._loading = seconds

    async def wanted(
        self,
        shown: Shown,
        intend: Callable[[LoadedModel | None], Awaitable[None]],
    ) -> LoadedModel | None:
        """Look at the board and return the model to hold, announced by now where it is another.

        Args:
            intend: announces what is going to be loaded, None for nothing.

        Raises:
            GatewayRefused, GatewayUnavailable: as ``shown`` does.
        """
        first = await self._look(shown, None)
        if first in (None, self._loaded):
            return self._loaded
        await intend(first)
        await asyncio.sleep(min(self._pause, SHOWN_SECONDS) + self._pause * share_of(self._hotkey))
        second = await self._look(shown, first)
        if second != first:
            await intend(None if second == self._loaded else second)
        return second

    async def rest(self, shown: Shown, wait_seconds: float) -> None:
        """Wait for work after there was none.

        A node that holds a model has waited for a lease already. One without waits at the board
        while nothing is on it; where nothing on it is worth loading, it rests longer each time.

        Args:
            wait_seconds: how long a request may wait at the gateway.

        Raises:
            GatewayRefused, GatewayUnavailable: as ``shown`` does.
        """
        if self._loaded is None and not self._offered:
            board = await shown.demand(wait_seconds)
            if self._offers(board):
                return
            if not board.demands:
                # It waits on: whoever has the next work finds it awake.
                self._rest = self._pause
                await asyncio.sleep(self._pause)
                return
        await asyncio.sleep(self._rest)
        if self._loaded is None:
            self._rest = min(2 * self._rest, max(REST_SECONDS, self._pause))

    async def _look(self, shown: Shown, told: LoadedModel | None) -> LoadedModel | None:
        """Return the choice by the board as it is, but for what this node itself has told."""
        board = await shown.demand()
        self._looked_at = self._clock()
        offers = [
            replace(offer, holders=max(0, offer.holders - (offer.model == told)))
            for offer in self._offers(board)
        ]
        self._offered = bool(offers)
        return choose(offers, self._standing(), self._now())

    def _standing(self) -> Standing:
        clock = self._clock()
        return Standing(
            hotkey=self._hotkey,
            loaded=self._loaded,
            held=clock - self._held_since,
            idle=clock - self._worked_at,
            patience=self._patience,
            loading=self._loading,
            speed=self._speed,
        )
