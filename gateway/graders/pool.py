"""The grading processes, in which answers are compared."""

import asyncio
from collections.abc import Sequence

import structlog

from gateway.graders import boxed_math, exact_match
from gateway.graders.names import EXACT_MATCH
from gateway.graders.tally import Grade
from gateway.graders.work import compare_answers
from gateway.worker import OVERTIME
from gateway.workers import WorkerDied, WorkerPool

log = structlog.get_logger("gateway.graders")

Pair = tuple[str, str]

PAIRS_AT_ONCE = 64
# All pairs of a job may run into their limits, on a machine that does much else.
JOB_SECONDS = 1_800.0
WAIT_SECONDS = 60.0
TRIES = 3


class GraderPool(WorkerPool):
    """Grades completions; what needs the computer algebra system runs outside of the gateway.

    A process starts with the first answer that needs one.

    Args:
        workers: processes.
    """

    def __init__(self, workers: int) -> None:
        super().__init__(workers, JOB_SECONDS, WAIT_SECONDS, "grading_unavailable")
        # Jobs wait in line here, where no wait is too long.
        self._turns = asyncio.Semaphore(workers)

    async def grade(self, grader: str, samples: Sequence[Pair]) -> list[Grade]:
        """Return the grades of samples, each a reference and a completion.

        Args:
            grader: one of ``names.GRADERS``.
        """
        decided = await asyncio.to_thread(_by_text, grader, samples)
        pairs = sorted({one for one in decided if isinstance(one, tuple)})
        jobs = [pairs[at : at + PAIRS_AT_ONCE] for at in range(0, len(pairs), PAIRS_AT_ONCE)]
        grades = await asyncio.gather(*map(self._compared, jobs))
        known = dict(zip(pairs, (grade for job in grades for grade in job), strict=True))
        return [known[one] if isinstance(one, tuple) else one for one in decided]

    async def _compared(self, pairs: Sequence[Pair]) -> list[Grade]:
        async with self._turns:
            outcome = await self._tried(pairs)
            if isinstance(outcome, list):
                return list(outcome)
            # One of them took the process along; alone they tell which.
            return [await self._alone(pair) for pair in pairs]

    async def _alone(self, pair: Pair) -> Grade:
        outcome = None
        for _ in range(TRIES):
            outcome = await self._tried([pair])
            if isinstance(outcome, list):
                return outcome[0]
            if isinstance(outcome, WorkerDied) and outcome.exitcode == OVERTIME:
                return False
        log.error("an answer could not be graded", error=type(outcome).__name__)
        return None

    async def _tried(self, pairs: Sequence[Pair]) -> list[bool] | BaseException:
        """Return the grades, or what went wrong, whatever it was: no answer ends an export."""
        (outcome,) = await asyncio.gather(
            self.attempt(compare_answers, pairs), return_exceptions=True
        )
        return outcome


def _by_text(grader: str, samples: Sequence[Pair]) -> list[bool | Pair]:
    if grader == EXACT_MATCH:
        return [exact_match.grade(*sample) for sample in samples]
    return [boxed_math.by_text(*sample) for sample in samples]
