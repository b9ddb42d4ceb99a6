"""Answers made to be expensive or to be run: graded wrong, within the limits of real processes."""

import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.graders import limits
from gateway.graders.answers import last_box
from gateway.graders.names import BOXED_MATH, EXACT_MATCH
from gateway.graders.pool import GraderPool
from gateway.worker import process_id
from scripts.bench.intake.processes import peak_bytes

NESTED = 200_000
HOSTILE = [
    "9^{9^{9^9}}",
    "9^9^9^9",
    "2^{1000000}",
    "10^{10^{10}}",
    "1e99999999",
    "10^{-4000}",
    "100000!",
    "((9!)!)!",
    "9!!!!!!",
    r"\binom{1000000000}{500000000}",
    r"\frac{1}{9^{9^{9}}}",
    "x^{1000000}",
    "(x+y+z+w)^{60}",
    "e^{e^{e^{e^{10}}}}",
    r"\sin^{1000} x",
    "(1+\\sqrt{2})^{5000}",
    r"\sum_{k=1}^{10000000} k^k",
    r"\prod_{k=1}^{1000000} k",
    r"\int_0^1 x^x dx",
    r"\gcd(2^{10000000}, 3)",
    r"\lim_{x\to 0} \frac{\sin x}{x}",
    r"\sqrt{" * 15 + "2" + "}" * 15,
    r"\sqrt{" * 160 + "2" + "}" * 160,
    "(" * 400 + "1" + ")" * 400,
    "1+" * 450 + "1",
    "x" * 900,
    "9" * 990,
    "1," * 490 + "1",
    "|" * 50 + "x" + "|" * 50,
    r"\pm" * 300,
    r"\begin{matrix}" + "1&" * 300 + r"1\end{matrix}",
    "x=" * 300 + "1",
    r"\cup" * 300,
    "[" * 500,
    "{" * 400 + "}" * 400,
    r"\left(" * 150,
    "0." + "3" * 900,
    "\0",
    "\ud800",
    "٣" * 100,
    "\u202e5",
    "5\u0000",
    "1_{" * 100 + "}" * 100,
]


@pytest.fixture
async def pool() -> AsyncIterator[GraderPool]:
    async with GraderPool(workers=1) as pool:
        yield pool


async def test_hostile_answers_are_wrong_and_their_process_lives_on(pool: GraderPool) -> None:
    samples = [("5", rf"\boxed{{{answer}}}") for answer in HOSTILE]
    # Tightened, so that this test is short.
    await pool.run(exec, "from gateway.graders import limits; limits.CPU_SECONDS = 0.3")
    before = await pool.run(process_id)
    assert await pool.grade(BOXED_MATH, samples) == [False] * len(samples)
    assert await pool.run(process_id) == before
    assert peak_bytes(before) < limits.MEMORY_BYTES


async def test_code_is_text(pool: GraderPool, tmp_path: Path) -> None:
    touched = tmp_path / "touched"
    code = f"__import__('os').system('touch {touched}')"
    answers = [
        code,
        rf"\text{{{code}}}",
        f"exec({code!r})",
        rf"\operatorname{{{code}}}",
        f"f({code})",
    ]
    samples = [(answer, rf"\boxed{{({answer})+0}}") for answer in answers]
    await pool.grade(BOXED_MATH, samples)
    await pool.grade(BOXED_MATH, [("5", rf"\boxed{{{answer}}}") for answer in answers])
    assert not touched.exists()


async def test_megabytes_are_read_in_passing(pool: GraderPool) -> None:
    samples = [
        ("5", r"\boxed{" + "9" * 10**6 + "}"),
        ("5", r"\boxed{" * NESTED),
        ("5", "{" * NESTED + r"\boxed{5}"),
        ("5", r"\boxed{" * NESTED + "5" + "}" * NESTED),
        ("9" * 4_096, r"\boxed{" + "9" * 4_096 + "}"),
    ]
    assert await pool.grade(BOXED_MATH, samples) == [False, False, True, False, True]
    assert await pool.grade(EXACT_MATCH, [("5" * 4_096, "5" * 10**6)]) == [False]
    assert last_box(r"\boxed{5" * NESTED) is None


async def test_who_computes_past_the_first_limit_is_broken_off(pool: GraderPool) -> None:
    await pool.run(exec, "from gateway.graders import limits; limits.CPU_SECONDS = 0.2")
    before = await pool.run(process_id)
    assert await pool.run(_endless) is False
    assert await pool.run(process_id) == before


async def test_who_heeds_no_limit_is_stopped_and_graded_wrong(
    pool: GraderPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A comparison that stays in native code, in place of the one of pairs.
    monkeypatch.setattr("gateway.graders.pool.compare_answers", _deaf)
    samples = [("1", r"\boxed{2}"), ("3", r"\boxed{3.0}")]
    assert await pool.grade(BOXED_MATH, samples) == [False, True]


async def test_no_process_no_grade(pool: GraderPool, monkeypatch: pytest.MonkeyPatch) -> None:
    # The system takes the process away, as one does that is out of memory.
    monkeypatch.setattr("gateway.graders.pool.compare_answers", _killed)
    samples = [("1", r"\boxed{2}"), ("3", r"\boxed{3.0}"), ("5", r"\boxed{5}"), ("5", "none")]
    assert await pool.grade(BOXED_MATH, samples) == [None, True, True, False]


async def test_a_fault_of_the_grader_itself_is_no_fault_of_the_answer(
    pool: GraderPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.graders.pool.compare_answers", _faulty)
    samples = [("1", r"\boxed{2}"), ("3", r"\boxed{3.0}")]
    assert await pool.grade(BOXED_MATH, samples) == [None, True]


async def test_too_much_memory_is_wrong(pool: GraderPool) -> None:
    assert await pool.run(_greedy) is False


def _endless() -> bool:
    def compare() -> bool:
        while True:
            pass

    return limits.within_limits(compare)


def _greedy() -> bool:
    limits.bound_memory()
    return limits.within_limits(lambda: bool(bytearray(2 * limits.MEMORY_BYTES)))


def _deaf(pairs: list[tuple[str, str]]) -> list[bool]:
    limits.CPU_SECONDS, limits.GRACE_SECONDS = 0.1, 0.1
    # Adding up looks at no signal before it is done.
    return [
        limits.within_limits(lambda pair=pair: pair != ("1", "2") or bool(sum(range(10**12))))
        for pair in pairs
    ]


def _faulty(pairs: list[tuple[str, str]]) -> list[bool]:
    return [{("3", "3.0"): True}[pair] for pair in pairs]


def _killed(pairs: list[tuple[str, str]]) -> list[bool]:
    if ("1", "2") in pairs:
        os.kill(os.getpid(), signal.SIGKILL)
    return [True for _ in pairs]
