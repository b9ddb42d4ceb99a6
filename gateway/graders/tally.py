"""What grades come to, of a line and over all lines (``docs/graders.md``, section 13). Pure."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

Grade = bool | None
"""Whether a sample answers its reference; None where no grading process could tell."""

_PLACES = 6


@dataclass(frozen=True)
class LineGrades:
    """The grades of a line.

    Attributes:
        index: counts the usable lines from 0.
        n: samples that the line asks for.
        grades: of its verified samples, by choice; those that are not here are missing.
    """

    index: int
    custom_id: str
    n: int
    grades: Mapping[int, Grade]

    def of_all(self) -> Iterator[Grade]:
        """Yield the grade of every sample; a missing one is wrong."""
        return (self.grades.get(choice, False) for choice in range(self.n))

    @property
    def pass_at_1(self) -> Fraction | None:
        """The share of right samples among those that could be graded; None where none could."""
        known = [grade for grade in self.of_all() if grade is not None]
        return Fraction(sum(known), len(known)) if known else None

    def encoded(self) -> bytes:
        """Return the line of ``grades.jsonl``, ASCII JSON and a line feed."""
        value = {
            "custom_id": self.custom_id,
            "prompt_index": self.index,
            "grades": list(self.of_all()),
            "missing": [choice for choice in range(self.n) if choice not in self.grades],
            "pass_at_1": shown(self.pass_at_1),
        }
        return json.dumps(value, separators=(",", ":")).encode("ascii") + b"\n"


class Tally:
    """Adds up the grades of an evaluation, line by line."""

    def __init__(self, grader: str) -> None:
        self._grader = grader
        self._lines = self._lines_graded = 0
        self._passed = Fraction(0)
        self._samples = {"correct": 0, "incorrect": 0, "missing": 0, "ungraded": 0}

    def add(self, line: LineGrades) -> None:
        """Count a line."""
        self._lines += 1
        passed = line.pass_at_1
        if passed is not None:
            self._lines_graded += 1
            self._passed += passed
        self._samples["missing"] += line.n - len(line.grades)
        for grade in line.grades.values():
            kind = {True: "correct", False: "incorrect", None: "ungraded"}[grade]
            self._samples[kind] += 1

    def evaluation(self) -> dict[str, Any]:
        """Return the whole evaluation, as a native order and its report show it."""
        mean = self._passed / self._lines_graded if self._lines_graded else None
        return {
            "grader": self._grader,
            "status": "graded",
            "pass_at_1": shown(mean),
            "lines": self._lines,
            "lines_graded": self._lines_graded,
            "samples": {"total": sum(self._samples.values()), **self._samples},
        }


def shown(share: Fraction | None) -> float | None:
    """Return a share as it is shown, to six places."""
    return None if share is None else float(round(share, _PLACES))
