"""Verdicts held to their marks: an outcome that the marks do not weigh up to is refused."""

import pytest

from protocol.messages import SampleVerdict, Stack
from scoring.published import chosen
from scoring.sample_rule import RULE
from scoring.weighing import judged_by, weighing_fault
from tests.support.profiles import ASSUMED

MINER = Stack(engine="vllm", version="1", dtype="float16", head_dtype="float32", device="cuda")
VERIFIED = {"outcome": "verified", "tokens": 9, "mismatches": 1, "largest_margin_micro": 1}
VOID = {**VERIFIED, "outcome": "void", "reason": "told", "position": 4, "marks": [(4, 0, 13)]}


@pytest.mark.parametrize(
    ("told", "fault"),
    [
        (VERIFIED, None),
        (VOID, None),
        ({**VERIFIED, "marks": [(4, 0, 3)]}, None),
        ({**VERIFIED, "marks": [(4, 0, 13)]}, "is verified, and its marks void it at position 4"),
        ({**VOID, "marks": []}, "is void, and its marks weigh too little for it"),
        ({**VOID, "marks": [(4, 0, 3)]}, "is void, and its marks weigh too little for it"),
        ({**VOID, "position": 5}, "must have position 4 by its marks"),
        ({**VERIFIED, "marks": [(4, 1, 3)]}, "has marks in strata past the profile's 1"),
        ({**VERIFIED, "abstained": True}, "must have abstained false by its marks"),
        ({**VOID, "outcome": "inconclusive", "marks": []}, None),
    ],
)
def test_an_outcome_is_what_its_marks_weigh(told: dict, fault: str | None) -> None:
    assert weighing_fault(SampleVerdict.model_validate(told), ASSUMED) == fault


def test_rule_and_profile_are_those_of_the_stacks() -> None:
    due = chosen("a/model", MINER, MINER).digest
    assert judged_by(RULE, due, "a/model", MINER, MINER).digest == due
    with pytest.raises(ValueError, match="rule must be"):
        judged_by("mine/1", due, "a/model", MINER, MINER)
    with pytest.raises(ValueError, match="profile must be"):
        judged_by(RULE, "0" * 64, "a/model", MINER, MINER)
