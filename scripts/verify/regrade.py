"""Grading again: a delivery's grades held to the customer's own references.

The graders' own code compares, in a process of its own with its limits. A grade differs by the rule
alone: where a comparison takes long enough here that a slower or faster machine may have broken it
off, nobody is blamed.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from types import TracebackType
from typing import Self

from gateway.errors import GatewayError
from gateway.graders.boxed_math import by_text
from gateway.graders.limits import CPU_SECONDS
from gateway.graders.names import BOXED_MATH
from gateway.graders.pool import GraderPool, Pair
from gateway.graders.work import compare_answers
from gateway.orders.delivery_lines import Decoder, Heading, Line, answer_of
from gateway.workers import WorkerDied
from protocol.receipts import SampleReceipt
from scripts.verify.discrepancy import Discrepancy

AT_ONCE = 256
# The computer algebra system, which the rule of boxed_math_v1 needs.
NEEDED = "math_verify"
# A comparison that takes more of its limit than this may end otherwise on another machine.
SURE_SHARE = 0.25


@dataclass(frozen=True)
class Place:
    """Where a grade stands: file, line, custom_id and choice."""

    file: str
    line: int
    custom_id: str
    choice: int


@dataclass
class Regraded:
    """What grading again came to.

    Attributes:
        same: grades that follow from the references.
        unsure: grades that differ, or that could not be made, for this machine's own reasons.
        ungraded: samples that the gateway could not grade.
    """

    same: int = 0
    unsure: int = 0
    ungraded: int = 0


def can_grade(grader: str) -> bool:
    """Say whether this machine has what the rule of a grader needs."""
    return grader != BOXED_MATH or find_spec(NEEDED) is not None


class Regrader:
    """Grades the samples of a delivery again, some at a time; a context manager.

    Args:
        grader: a grader for which ``can_grade`` holds.
    """

    def __init__(self, grader: str, heading: Heading, decoder: Decoder) -> None:
        self.found = Regraded()
        self._grader = grader
        self._heading = heading
        self._decoder = decoder
        self._pool = GraderPool(workers=1)
        self._runner = asyncio.Runner()
        self._waiting: list[tuple[Place, Pair, bool]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if isinstance(error, Discrepancy):
                # What waits comes before that which was found.
                self.flush()
        finally:
            self._runner.run(self._pool.close())
            self._runner.close()

    def add(self, line: Line[SampleReceipt], file: str, number: int) -> None:
        """Grade the samples of a line, now or later, and compare with the grades that it states.

        Args:
            file, number: where those stand.

        Raises:
            Discrepancy: a grade does not follow from its reference, here or in a line before.
        """
        for choice, sample in sorted(line.samples.items()):
            stated = line.grades[choice]
            if stated is None:
                self.found.ungraded += 1
                continue
            text = answer_of(self._heading, sample.token_ids, self._decoder).text
            place = Place(file, number, line.custom_id, choice)
            self._waiting.append((place, (line.reference or "", text), stated))
        if len(self._waiting) >= AT_ONCE:
            self.flush()

    def flush(self) -> None:
        """Grade all that waits.

        Raises:
            Discrepancy: a grade does not follow from its reference.
        """
        waiting, self._waiting = self._waiting, []
        made = self._runner.run(self._pool.grade(self._grader, [pair for _, pair, _ in waiting]))
        for (place, pair, stated), grade in zip(waiting, made, strict=True):
            if grade == stated:
                self.found.same += 1
            elif grade is None or not self._runner.run(self._is_sure(pair)):
                self.found.unsure += 1
            else:
                raise Discrepancy(
                    place.file,
                    f"is {str(stated).lower()}; by {self._grader} and your reference it is "
                    f"{str(grade).lower()}",
                    line=place.line,
                    custom_id=place.custom_id,
                    field=f"grades[{place.choice}]",
                )

    async def _is_sure(self, pair: Pair) -> bool:
        """Say whether a pair is compared far within the limits of a comparison."""
        boxed = by_text(*pair) if self._grader == BOXED_MATH else None
        if not isinstance(boxed, tuple):
            # Its text alone tells.
            return True
        try:
            seconds = await self._pool.attempt(seconds_of, [boxed])
        except (WorkerDied, GatewayError):
            return False
        return seconds <= SURE_SHARE * CPU_SECONDS


def seconds_of(pairs: Sequence[Pair]) -> float:
    """Return the processor time that comparing takes, once what it needs is loaded; for a worker.

    Args:
        pairs: references and answers as they stand in their boxes.
    """
    compare_answers([])
    began = time.process_time()
    compare_answers(pairs)
    return time.process_time() - began
