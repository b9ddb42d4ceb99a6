"""Grading what an evaluation delivers, while its files are written.

Each run's grades are an object named by what was graded and how: an exporter that takes over from
one that died reads them, so that both write the same bytes, whatever became of grading processes.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from hashlib import sha256

from gateway.graders.pool import GraderPool, Pair
from gateway.graders.tally import Grade, LineGrades, Tally
from gateway.orders.content import object_key
from gateway.orders.delivery_lines import Decoder, Heading, Line, answer_of
from gateway.orders.evidence import Delivered
from gateway.store.objects import ObjectExists, ObjectMissing, Objects


class Grading:
    """Grades the lines of one order's delivery.

    Args:
        heading: of the delivery.
        grader: the order's.
        pool: compares answers with references.
        objects: keep what was graded.
        decoder: gives the samples' texts.
    """

    def __init__(
        self, heading: Heading, grader: str, pool: GraderPool, objects: Objects, decoder: Decoder
    ) -> None:
        self._heading = heading
        self._grader = grader
        self._pool = pool
        self._objects = objects
        self._decoder = decoder
        self.tally = Tally(grader)

    async def graded(
        self, runs: AsyncIterator[list[Line[Delivered]]]
    ) -> AsyncIterator[list[Line[Delivered]]]:
        """Yield runs of lines with the grades of their samples, and count them."""
        async for lines in runs:
            key, pairs = await asyncio.to_thread(self._job, lines)
            grades = iter(await self._grades(key, pairs) if pairs else ())
            graded = [
                replace(line, grades={choice: next(grades) for choice in sorted(line.samples)})
                for line in lines
            ]
            for line in graded:
                grades = LineGrades(line.index, line.custom_id, self._heading.n, line.grades)
                self.tally.add(grades)
            yield graded

    def _job(self, lines: Sequence[Line[Delivered]]) -> tuple[str, list[Pair]]:
        """Return what is to be graded of a run, and the key of its grades."""
        pairs = [
            (line.reference or "", answer_of(self._heading, sample.token_ids, self._decoder).text)
            for line in lines
            for _, sample in sorted(line.samples.items())
        ]
        digest = sha256(json.dumps([self._grader, pairs]).encode("ascii")).hexdigest()
        return object_key(self._heading.order_id, f"grades/{digest}.json"), pairs

    async def _grades(self, key: str, pairs: list[Pair]) -> list[Grade]:
        try:
            return json.loads(await self._objects.get(key))
        except ObjectMissing:
            grades = await self._pool.grade(self._grader, pairs)
        try:
            await self._objects.put(key, json.dumps(grades).encode("ascii"))
        except ObjectExists:
            # Another exporter was first; what is delivered is told by its grades.
            return json.loads(await self._objects.get(key))
        return grades
