"""``exact_match_v1``: text for text."""

import pytest

from gateway.graders.exact_match import grade


@pytest.mark.parametrize("completion", ["Paris", " Paris\n", "<think>Rome?</think>\n\nParis"])
def test_only_white_space_around_is_free(completion: str) -> None:
    assert grade(" Paris ", completion)


@pytest.mark.parametrize(
    "completion", ["paris", "Paris.", "Par is", "", "<think>Paris", r"\boxed{Paris}"]
)
def test_anything_else_is_wrong(completion: str) -> None:
    assert not grade("Paris", completion)


def test_white_space_inside_counts() -> None:
    assert not grade("New York", "New  York")
    assert grade("New\u00a0York", "New\u00a0York\u3000")
