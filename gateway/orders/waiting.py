"""Nodes that wait for work: who is woken when there is some, and how many at once.

The rows tell what work there is: they are looked at when there is news and once in a while, once
for all nodes that wait. Then the few that have waited longest for work of that kind are woken, and
each that gets some wakes the next one. So 200 nodes do not run for one unit.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
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
# How many are woken by one look at the rows.
WOKEN_AT_ONCE = 4
# Work that those who were woken could not take is offered to others after this long.
PASSED_OVER_SECONDS = 5.0
# However much news there is, the rows are looked at no more often.
PAUSE_SECONDS = 0.05
LOOK_SECONDS = 1.0

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


class WaitingRoom:
    """All requests of nodes that wait at this gateway."""

    def __init__(self, store: Store, policy: Policy) -> None:
        self._store = store
        self._policy = policy
        self._lines: dict[Want, deque[Place]] = {}
        self._of: Counter[str] = Counter()
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
                self._lines.pop(want, None)
                self._passed_over.pop(want, None)

    async def served(
        self, place: Place, seconds: float, attempt: Callable[[], Awaitable[T | None]]
    ) -> T | None:
        """Return what ``attempt`` does once it is something; None after ``seconds`` of nothing."""
        until = asyncio.get_running_loop().time() + seconds
        while await place.turn(until):
            place.trying = True
            granted = await attempt()
            place.trying = False
            if granted is not None:
                self._passed_over.pop(place.want, None)
                self._wake(place.want, 1)
                return granted
            # Others first, the next time.
            line = self._lines[place.want]
            line.remove(place)
            line.append(place)
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
                self._wake(want, WOKEN_AT_ONCE)
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

    def _wake(self, want: Want, count: int) -> None:
        """Wake those that have waited longest and sleep."""
        for place in self._lines.get(want, ()):
            if count == 0:
                return
            if not (place.is_woken or place.trying):
                place.wake()
                count -= 1


async def _amounts(session: AsyncSession, wants: list[Want], policy: Policy) -> Mapping[Want, int]:
    """Return how much work there is of each kind that is wanted: samples, or results to judge."""
    amounts: Counter[Want] = Counter()
    roles = {want.role for want in wants}
    if NodeRole.MINER in roles:
        for (model, revision), samples in (await _generations(session, policy)).items():
            amounts[Want(NodeRole.MINER, model, revision)] = samples
    if NodeRole.VALIDATOR in roles:
        for (model, revision), results in (await audit_backlogs(session, taken=False)).items():
            amounts[Want(NodeRole.VALIDATOR, model, revision)] = results
    return {want: amounts[want] for want in wants}


async def _generations(session: AsyncSession, policy: Policy) -> Counter[tuple[str, str]]:
    """Return the samples that miners may be given, by model and revision."""
    uncut = (col(Order.lines_usable) - col(Order.cursor_line)) * col(Order.n)
    new = select(Order.model, Order.revision, func.sum(uncut))
    again = select(Order.model, Order.revision, func.sum(Unit.samples)).join(
        Unit, col(Unit.order_id) == col(Order.id)
    )
    samples: Counter[tuple[str, str]] = Counter()
    for statement in (new, again.where(col(Unit.state) == UnitState.OPEN)):
        grouped = statement.where(col(Order.status).in_(GENERATING)).group_by(
            col(Order.model), col(Order.revision)
        )
        for model, revision, count in (await session.exec(grouped)).all():
            samples[model, revision] += int(count or 0)
    backlogs = await audit_backlogs(session)
    return Counter(
        {commit: n for commit, n in samples.items() if backlogs[commit] < policy.audit_backlog}
    )
