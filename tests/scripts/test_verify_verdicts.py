"""Verdicts held to their marks, without the model."""

from typing import Any

import pytest

from protocol.messages import SampleVerdict, Stack
from protocol.receipts import VerdictPart
from scoring.profile import EDGES, bin_of
from scoring.published import chosen
from scoring.sample_rule import RULE
from scripts.verify.verdicts import verdict_fault

STACK = Stack(
    engine="transformers", version="1", dtype="bfloat16", head_dtype="float32", device="cpu"
)
IDS = list(range(40))


def part(rule: str = RULE, profile: str | None = None, **sample: Any) -> VerdictPart:
    members = {"outcome": "verified", "tokens": 40, "mismatches": 1, "largest_margin_micro": 0}
    return VerdictPart(
        validator="5" * 48,
        sample=SampleVerdict.model_validate(members | sample),
        rule=rule,
        profile=profile or chosen("org/model", STACK, STACK).digest,
        stack=STACK,
        root="00" * 32,
        signature="00" * 64,
        path=[],
    )


def marked(*marks: tuple[int, int, int], micro: int) -> dict[str, Any]:
    return {"marks": list(marks), "largest_margin_micro": micro}


@pytest.mark.parametrize(
    "sample",
    [
        {},
        marked((0, 0, 1), micro=1_000),
        marked((3, 0, 1), (7, 0, 2), micro=3_000),
        # Rounding may carry a margin over the edge of its bin, either way.
        marked((0, 0, 1), micro=round(EDGES[0] * 1e6)),
        marked((0, 0, 2), micro=round(EDGES[0] * 1e6)),
        marked((0, 0, 1), micro=0),
    ],
)
def test_what_follows_holds(sample: dict[str, Any]):
    assert verdict_fault(part(**sample), IDS) is None


LARGEST = bin_of(1e9)


@pytest.mark.parametrize(
    ("sample", "field"),
    [
        ({"outcome": "void"}, "outcome"),
        ({"tokens": 39}, "tokens"),
        ({"mismatches": 41}, "mismatches"),
        ({"reason": "none"}, "reason"),
        ({"position": 3}, "reason"),
        ({"largest_margin_micro": 5}, "largest_margin_micro"),
        ({"abstained": True}, "abstained"),
        (marked((3, 0, 1), micro=3_000_000), "largest_margin_micro"),
        (marked((3, 0, 5), micro=1_000), "largest_margin_micro"),
        (marked((3, 0, 1), (2, 0, 1), micro=1_000), "marks"),
        (marked((3, 0, 1), (3, 0, 1), micro=1_000), "marks"),
        (marked((40, 0, 1), micro=1_000), "marks"),
        (marked((3, 11, 1), micro=1_000), "marks"),
        (marked(*((at, 0, LARGEST) for at in range(9)), micro=9_000_000), "outcome"),
    ],
)
def test_what_does_not_follow_is_named(sample: dict[str, Any], field: str):
    fault = verdict_fault(part(**sample), IDS)
    assert fault is not None
    assert fault.field == f"verdict.sample.{field}"


def test_rules_and_profiles_of_other_versions_are_not_judged():
    absurd = marked(*((at, 0, LARGEST) for at in range(9)), micro=9_000_000)
    assert verdict_fault(part(rule="evidence/9", **absurd), IDS) is None
    assert verdict_fault(part(profile="ab" * 32, **absurd), IDS) is None
