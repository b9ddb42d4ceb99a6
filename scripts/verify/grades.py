"""The grades of an evaluation's delivery, read line by line and added up again."""

import json
from collections.abc import Mapping

from gateway.graders.tally import LineGrades, Tally
from protocol.receipts import SampleReceipt
from scripts.verify.files import DeliveryFile
from scripts.verify.prompts import ExpectedLine

# Of the longest custom_id with the most samples it is a fifth.
MAX_GRADES_BYTES = 8 * 1024


class GradesReader:
    """Reads the grades of one line after another; ``tally`` adds them up.

    Whether each grade follows from its reference is another check (``regrade.py``).
    """

    def __init__(self, file: DeliveryFile, grader: str, n: int) -> None:
        self._file = file
        self._n = n
        self.tally = Tally(grader)

    def of_line(
        self, line: ExpectedLine, samples: Mapping[int, SampleReceipt]
    ) -> Mapping[int, bool | None]:
        """Return the grades of the delivered samples of ``line`` by choice.

        Raises:
            Discrepancy: the next line of the file is not about them.
        """
        found = self._file.read_line(MAX_GRADES_BYTES)
        grades = _stated(found, samples, self._n)
        graded = LineGrades(line.index, line.custom_id, self._n, grades)
        if graded.encoded() != found:
            message = "are not the grades of this line"
            raise self._file.fault(message, custom_id=line.custom_id, field="grades")
        self.tally.add(graded)
        return grades


def _stated(content: bytes, samples: Mapping[int, SampleReceipt], n: int) -> dict[int, bool | None]:
    """Return the grades in a line of a grades file; all wrong where it holds none."""
    try:
        stated = json.loads(content)["grades"]
        if len(stated) == n and all(grade in (True, False, None) for grade in stated):
            return {choice: stated[choice] for choice in samples}
    except (ValueError, RecursionError, TypeError, KeyError):
        pass
    return dict.fromkeys(samples, False)
