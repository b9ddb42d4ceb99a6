"""Verdicts held to their marks, without the model."""

from typing import Any

import pytest

from protocol.messages import SampleVerdict, Stack
from protocol.receipts import LeasePart, ResultPart, SampleReceipt, VerdictPart
from scoring.profile import EDGES, bin_of
from scoring.published import chosen
from scoring.sample_rule import RULE
from scripts.verify.verdicts import verdict_fault

STACK = Stack(
    engine="transformers", version="1", dtype="bfloat16", head_dtype="float32", device="cpu"
)
MODEL = "org/model"


def receipt(rule: str = RULE, profile: str | None = None, **sample: Any) -> SampleReceipt:
    """Return a receipt of which only verdict, stacks, model and ids mean anything."""
    members = {"outcome": "verified", "tokens": 40, "mismatches": 9, "largest_margin_micro": 0}
    root, signature, hotkey, unit = "00" * 32, "00" * 64, "5" * 48, "0" * 36
    return SampleReceipt(
        custom_id="q",
        prompt_index=0,
        choice=0,
        prompt_ids=[1],
        sample_index=0,
        draw_key=root,
        token_ids=list(range(40)),
        unit_id=unit,
        attempt=1,
        miner=hotkey,
        result=ResultPart(
            stack=STACK, root=root, signature=signature, leaf_index=0, leaf_count=1, path=[]
        ),
        verdict=VerdictPart(
            validator=hotkey,
            sample=SampleVerdict.model_validate(members | sample),
            rule=rule,
            profile=profile or chosen(MODEL, STACK, STACK).digest,
            stack=STACK,
            root=root,
            signature=signature,
            path=[],
        ),
        lease=LeasePart(statement={"model": MODEL}, gateway=hotkey, signature=signature, path=[]),
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
    assert verdict_fault(receipt(**sample)) is None


LARGEST = bin_of(1e9)


@pytest.mark.parametrize(
    ("sample", "field"),
    [
        ({"outcome": "void"}, "outcome"),
        ({"tokens": 39}, "tokens"),
        ({"mismatches": 41}, "mismatches"),
        ({"mismatches": 0} | marked((3, 0, 1), micro=1_000), "mismatches"),
        ({"reason": "none"}, "reason"),
        ({"position": 3}, "reason"),
        ({"largest_margin_micro": 5}, "largest_margin_micro"),
        ({"abstained": True}, "marks"),
        (marked((3, 0, 1), micro=3_000_000), "largest_margin_micro"),
        (marked((3, 0, 5), micro=1_000), "largest_margin_micro"),
        (marked((3, 0, 1), (2, 0, 1), micro=1_000), "marks"),
        (marked((3, 0, 1), (3, 0, 1), micro=1_000), "marks"),
        (marked((40, 0, 1), micro=1_000), "marks"),
        (marked((3, 11, 1), micro=1_000), "marks"),
        (marked(*((at, 0, LARGEST) for at in range(9)), micro=9_000_000), "marks"),
    ],
)
def test_what_does_not_follow_is_named(sample: dict[str, Any], field: str):
    fault = verdict_fault(receipt(**sample))
    assert fault is not None
    assert fault.field == f"verdict.sample.{field}"


def test_rules_and_profiles_of_other_versions_are_not_judged():
    absurd = marked(*((at, 0, LARGEST) for at in range(9)), micro=9_000_000)
    assert verdict_fault(receipt(rule="evidence/9", **absurd)) is None
    assert verdict_fault(receipt(profile="ab" * 32, **absurd)) is None
