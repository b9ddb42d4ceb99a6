"""``docs/graders.md`` says what the graders do."""

import json
import re
from pathlib import Path

import pytest

from gateway.graders import boxed_math, limits, magnitude, numbers, pool, structured, values
from gateway.graders.boxed_math import grade
from gateway.graders.expressions import same_expression
from gateway.graders.names import BOXED_MATH, GRADERS
from gateway.graders.tally import LineGrades, Tally

DOCUMENT = (Path(__file__).parents[3] / "docs" / "graders.md").read_text("utf-8")
FLAT = " ".join(DOCUMENT.split())


@pytest.mark.parametrize(
    "said",
    [
        *(f"`{name}`" for name in GRADERS),
        f"more than {boxed_math.MAX_CHARACTERS:,} characters",
        f"nest deeper than {structured.MAX_DEPTH}, or it has {structured.MAX_PARTS} or more",
        f"|k| up to {numbers.MAX_POWER_OF_TEN}",
        "a plain decimal of at least six places",
        "more than three letters",
        f"more than {magnitude.MAX_NODES} parts",
        f"more than {magnitude.MAX_DIGITS:,} digits",
        f"more than the {magnitude.MAX_UNKNOWN_POWER}th power",
        f"of more than {magnitude.MAX_COUNTED:,}",
        f"Past {limits.CPU_SECONDS:.0f} seconds of CPU time",
        f"stopped after {limits.CPU_SECONDS + limits.GRACE_SECONDS:.0f} seconds",
        f"or {limits.MEMORY_BYTES // 2**30} GiB of memory",
        "or failed of itself, three times",
    ],
)
def test_its_numbers(said: str) -> None:
    assert said in FLAT


def test_the_numbers_that_it_spells() -> None:
    assert (numbers.FEWEST_PLACES, values.MOST_UNKNOWNS, pool.TRIES) == (6, 3, 3)


def test_its_sections_are_those_that_the_code_names() -> None:
    sections = {int(number) for number in re.findall(r"(?m)^## (\d+)\. ", DOCUMENT)}
    assert sections == set(range(1, 14))
    code = Path(boxed_math.__file__).parent.glob("*.py")
    named = {
        int(number)
        for path in code
        for names in re.findall(r"sections? ((?:\d+)(?: and \d+)*)", path.read_text("utf-8"))
        for number in names.split(" and ")
    }
    assert named <= sections and len(named) >= 8


@pytest.mark.parametrize(
    ("reference", "answer", "right"),
    [
        (r"50\%", "50", True),
        ("50", r"50\%", False),
        ("77_8", "63", True),
        ("1/3", "0.333333", True),
        ("1/3", "0.333", False),
        (r"1\text{ m}", r"100\text{ cm}", False),
        ("y = 2x + 1", "2x - y + 1 = 0", True),
        (r"\pi", "3.141593", True),
        (r"\pi", "3.14", False),
        ("B", "(B)", True),
    ],
)
def test_its_examples(reference: str, answer: str, right: bool) -> None:
    assert grade(reference, rf"\boxed{{{answer}}}", same_expression) == right


def test_its_reports() -> None:
    tally = Tally(BOXED_MATH)
    lines = [LineGrades(0, "q1", 2, {0: True, 1: True}), LineGrades(1, "q2", 2, {0: True})]
    for line in lines:
        tally.add(line)
    shown = [json.loads(block) for block in re.findall(r"(?m)^    (\{(?:.|\n     )*\})$", DOCUMENT)]
    assert shown == [tally.evaluation(), json.loads(lines[1].encoded())]
