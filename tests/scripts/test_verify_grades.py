"""``reliquary verify`` grades again from the customer's own references."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from checked_delivery import MISSING, REVISION, SIGNERS, row
from small_model import MODEL, write_small_model
from tokenizers import Tokenizer

from gateway.graders import exact_match
from gateway.orders.delivery_lines import Answer
from protocol.manifest import GRADES
from protocol.messages import Work
from scripts.bench.made_delivery import MadeGrader, Model, make_delivery
from scripts.verify import regrade
from scripts.verify.check import verify
from scripts.verify.discrepancy import Discrepancy
from scripts.verify.report import Assurance, Report, summary

Grade = Callable[[str, str], bool | None]
ANSWER = "hello world"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    folder = tmp_path_factory.mktemp("grades") / "model"
    write_small_model(folder)
    return Model(MODEL, REVISION, folder)


def graded(
    model: Model, folder: Path, name: str, grade: Grade, references: list[str], text: str = ANSWER
) -> Report:
    """Make the delivery of an evaluation whose samples all say ``text``, and check it."""
    tokenizer = Tokenizer.from_file(str(model.folder / "tokenizer.json"))

    def generate(work: Work) -> list[list[int]]:
        return [[*tokenizer.encode(text).ids, work.end_ids[0]] for _ in work.samples]

    rows: list[dict[str, Any]] = [
        {**row(f"q{at}", "hello", max_tokens=64), "reference": reference}
        for at, reference in enumerate(references)
    ]
    path, delivery = folder / "in.jsonl", folder / "delivery"
    path.write_text("".join(json.dumps(one) + "\n" for one in rows))
    delivery.mkdir()
    grader = MadeGrader(name, grade)
    make_delivery(delivery, path, model, generate, SIGNERS, missing=MISSING, grader=grader)
    return verify(delivery, path, own_model=model.folder)


def said(report: Report) -> str:
    return "\n".join(summary(report, Assurance(False, False, False, None)))


def test_grades_that_follow_are_proved(model: Model, tmp_path: Path):
    references = [ANSWER, "no", ANSWER, ANSWER, "no"]
    report = graded(model, tmp_path, "exact_match_v1", exact_match.grade, references)
    assert report.regraded == regrade.Regraded(same=7)
    assert "7 grades follow from your references" in said(report)
    assert "4 correct, 3 incorrect, 3 missing" in said(report)


@pytest.mark.parametrize("stated", [True, False])
def test_the_first_grade_that_does_not_follow_is_named(stated: bool, model: Model, tmp_path: Path):
    # Of the lines whose grades are wrong the second is the first that has samples.
    reference = "no" if stated else ANSWER

    def lies(wanted: str, text: str) -> bool:
        return stated if wanted == reference else exact_match.grade(wanted, text)

    references = [ANSWER if stated else "no", reference, reference]
    with pytest.raises(Discrepancy) as found:
        graded(model, tmp_path, "exact_match_v1", lies, references)
    assert (found.value.file, found.value.line) == (GRADES, 2)
    assert (found.value.custom_id, found.value.field) == ("q1", "grades[1]")
    assert f"is {str(stated).lower()}; by exact_match_v1" in found.value.message


def test_what_the_gateway_could_not_grade_blames_nobody(model: Model, tmp_path: Path):
    report = graded(model, tmp_path, "exact_match_v1", lambda wanted, text: None, [ANSWER])
    assert report.regraded == regrade.Regraded(ungraded=2)
    assert "2 samples that the gateway could not grade" in said(report)


def test_values_are_compared_by_the_rule_of_boxed_math(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("scripts.verify.regrade.answer_of", _boxed)

    def lies(wanted: str, text: str) -> bool:
        return True

    (tmp_path / "right").mkdir()
    report = graded(model, tmp_path / "right", "boxed_math_v1", lies, ["1/2"])
    assert report.regraded == regrade.Regraded(same=2)
    (tmp_path / "wrong").mkdir()
    with pytest.raises(Discrepancy, match="by boxed_math_v1 and your reference it is false"):
        graded(model, tmp_path / "wrong", "boxed_math_v1", lies, ["1/3"])
    # On a machine that takes long for anything, or has no algebra, nobody is blamed.
    monkeypatch.setattr(regrade, "SURE_SHARE", -1.0)
    (tmp_path / "slow").mkdir()
    report = graded(model, tmp_path / "slow", "boxed_math_v1", lies, ["1/3"])
    assert report.regraded == regrade.Regraded(unsure=2)
    monkeypatch.setattr(regrade, "NEEDED", "no_such_module")
    (tmp_path / "bare").mkdir()
    report = graded(model, tmp_path / "bare", "boxed_math_v1", lies, ["1/3"])
    assert report.regraded is None
    assert "is not installed" in said(report)


def _boxed(*_: Any) -> Any:
    """Stand in for the small model's text, which has no boxes: an answer of one half."""
    return Answer(r"so it is \boxed{0.5}", "stop")
