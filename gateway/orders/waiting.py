"""Nodes that wait for work: who is woken when there is some, and how many at once.

The rows tell what work there is: they are looked at when there is news and once in a while, once
for all nodes that wait. Then those that have waited longest for work of that kind are woken, a few
at once and no more than it could serve. Each that gets some wakes the next one while there is more,
and one that may not take it passes it on. So 200 nodes do not run for one unit.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import structlog
from sqlmodel import col, func, select
from sqlmodel.ext.asyncio.session import AsyncSession

from gateway.orders.generation import audit_backlogs
from gateway.orders.policy import Policy
from gateway.orders.serving import GENERATING
from gateway.store.engine import Store
from gateway.store.tables import NodeRole, Order, Unit, UnitState

# All nodes that wait together, and requests of one hotkey that do.
PLACES = 2_048
PLACES_OF_A_HOTKEY = 2
# How many are woken by one look at the rows, and how many of those may try in vain after it.
WOKEN_AT_ONCE = 4
# Work that those who were woken could not take is offered to others after this long.
PASSED_OVER_SECONDS = 5.0
# However much news there is, the rows are looked at no more often.
PAUSE_SECONDS = 0.05
LOOK_SECONDS = 1.0

_COMMIT = (col(Order.model), col(Order.revision))
# Made once, for all looks. A unit has one line at least.
_UNCUT = (
    select(*_COMMIT, func.sum(col(Order.lines_usable) - col(Order.cursor_line)))
    .where(col(Order.status).in_(GENERATING))
    .group_by(*_COMMIT)
)
_REOPENED = (
    select(*_COMMIT, func.count())
    .join(Unit, col(Unit.order_id) == col(Order.id))
    .where(col(Order.status).in_(GENERATING), col(Unit.state) == UnitState.OPEN)
    .group_by(*_COMMIT)
)

T = TypeVar("T")

log = structlog.get_logger("gateway.waiting")


class Want(NamedTuple):
    """What nodes wait for: work of a role with a model commit."""

    role: str
    model: str
    revision: str


class Place:
    """One request that waits.

    Attributes:
        left: its wait was ended.
        gone: nobody is there any more to take an answer.
        trying: it was woken and has not found out yet.
    """

    def __init__(self, want: Want) -> None:
        self.want = want
        self.left = False
        self.gone = False
        self.trying = False
        self._turn = asyncio.Event()

    @property
    def is_woken(self) -> bool:
        """Whether it may try and has not begun to."""
        return self._turn.is_set()

    def wake(self) -> None:
        """Let it try."""
        self._turn.set()

    def leave(self, *, gone: bool = False) -> None:
        """End its wait."""
        self.left, self.gone = True, self.gone or gone
        self._turn.set()

    async def turn(self, until: float) -> bool:
        """Wait until it may try, and return True; False where the wait is over before.

        Args:
            until: of the running loop's clock.
        """
        try:
            async with asyncio.timeout_at(until):
                await self._turn.wait()
        except TimeoutError:
            return False
        self._turn.clear()
        return not self.left


@dataclass
class _Offer:
    """What one look found for those that wait: for how many more it is, and who may try in vain."""

    more: int
    in_vain: int = WOKEN_AT_ONCE


class WaitingRoom:
    """All requests of nodes that wait at this gateway."""

    def __init__(self, store: Store, policy: Policy) -> None:
        self._store = store
        self._policy = policy
        self._lines: dict[Want, deque[Place]] = {}
        self._of: Counter[str] = Counter()
        self._offers: dict[Want, _Offer] = {}
        # What was there, of each kind, when nobody who was woken could take it; and until when.
        self._passed_over: dict[Want, tuple[int, float]] = {}
        self._closed = False

    def __len__(self) -> int:
        return self._of.total()

    def close(self) -> None:
        """End all waits, and let nobody wait any more."""
        self._closed = True
        for line in self._lines.values():
            for place in line:
                place.leave()

    @contextmanager
    def place(self, want: Want, hotkey: str) -> Iterator[Place | None]:
        """Give a request a place at the end of its line; None where there is none left."""
        if self._closed or len(self) >= PLACES or self._of[hotkey] >= PLACES_OF_A_HOTKEY:
            yield None
            return
        place = Place(want)
        self._of[hotkey] += 1
        line = self._lines.setdefault(want, deque())
        line.append(place)
        try:
            yield place
        finally:
            self._of -= Counter((hotkey,))
            line.remove(place)
            if place.is_woken:
                # A turn that it does not take is the next one's.
                self._wake(want, 1)
            if not line:
                for noted in (self._lines, self._offers, self._passed_over):
                    noted.pop(want, None)

    async def served(
        self, place: Place, seconds: float, attempt: Callable[[], Awaitable[T | None]]
    ) -> T | None:
        """Return what ``attempt`` does once it is something; None after ``seconds`` of nothing."""
        until = asyncio.get_running_loop().time() + seconds
        while await place.turn(until):
            place.trying = True
            try:
                granted = await attempt()
            except BaseException:
                # It is given no work at all now; others may be.
                self._pass_on(place.want)
                raise
            if granted is not None:
                offer = self._offers.get(place.want, _Offer(0))
                self._passed_over.pop(place.want, None)
                offer.more -= self._wake(place.want, min(1, offer.more))
                return granted
            # Another may be able to; of the next work, others are told first.
            line = self._lines[place.want]
            line.remove(place)
            line.append(place)
            self._pass_on(place.want)
            place.trying = False
        return None

    async def look(self) -> None:
        """Wake some of those for whom there is work now."""
        wants = list(self._lines)
        if not wants:
            return
        async with self._store.glance() as session:
            amounts = await _amounts(session, wants, self._policy)
        now = asyncio.get_running_loop().time()
        for want, amount in amounts.items():
            if want not in self._lines:
                continue
            seen, again_at = self._passed_over.get(want, (0, now))
            if amount > seen or (amount and now >= again_at):
                again_at = now + PASSED_OVER_SECONDS
                self._offer(want, amount)
            self._passed_over[want] = (amount, again_at)

    async def attend(self) -> None:
        """Look at once when there is news, and once in a while; ends only by being cancelled."""
        while True:
            heard = self._store.news
            (outcome,) = await asyncio.gather(self.look(), return_exceptions=True)
            if isinstance(outcome, BaseException):
                log.error("waking nodes failed", exc_info=outcome)
            await asyncio.sleep(PAUSE_SECONDS)
            await self._store.wait_for_news(LOOK_SECONDS, heard)

    def _offer(self, want: Want, amount: int) -> None:
        """Wake as many as work could serve besides those that are at it, but few at once."""
        more = amount - sum(place.is_woken or place.trying for place in self._lines[want])
        woken = self._wake(want, max(0, min(more, WOKEN_AT_ONCE)))
        self._offers[want] = _Offer(more - woken, WOKEN_AT_ONCE - 1)

    def _pass_on(self, want: Want) -> None:
        """Let another try what one tried in vain, while there are few who did."""
        offer = self._offers.get(want)
        if offer is not None:
            offer.in_vain -= self._wake(want, min(1, offer.in_vain))

    def _wake(self, want: Want, count: int) -> int:
        """Wake those that have waited longest and sleep; return how many there were."""
        woken = 0
        for place in self._lines.get(want, ()):
            if woken >= count:
                break
            if not (place.is_woken or place.trying):
                place.wake()
                woken += 1
        return woken


async def _amounts(session: AsyncSession, wants: list[Want], policy: Policy) -> Mapping[Want, int]:
    """Return how many nodes the work of each kind that is wanted could serve at most."""
    amounts: Counter[Want] = Counter()
    roles = {want.role for want in wants}
    if NodeRole.MINER in roles:
        for (model, revision), pieces in (await _generations(session, policy)).items():
            amounts[Want(NodeRole.MINER, model, revision)] = pieces
    if NodeRole.VALIDATOR in roles:
        for (model, revision), results in (await audit_backlogs(session, taken=False)).items():
            amounts[Want(NodeRole.VALIDATOR, model, revision)] = results
    return {want: amounts[want] for want in wants}


async def _generations(session: AsyncSession, policy: Policy) -> Counter[tuple[str, str]]:
    """Return the lines and units that miners may be given, by model and revision."""
    pieces: Counter[tuple[str, str]] = Counter()
    for statement in (_UNCUT, _REOPENED):
        for model, revision, count in (await session.exec(statement)).all():
            pieces[model, revision] += int(count or 0)
    backlogs = await audit_backlogs(session)
    return Counter(
        {commit: n for commit, n in pieces.items() if backlogs[commit] < policy.audit_backlog}
    )
