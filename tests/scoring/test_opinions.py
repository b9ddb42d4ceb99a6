"""Several opinions on one result: which stands, and who is overruled."""

from hashlib import sha256

import pytest

from scoring.opinions import (
    Opinion,
    Seen,
    at_odds,
    differ,
    is_drawn,
    is_tied,
    judged_by,
    overruled,
    standing,
)
from tests.support.profiles import ASSUMED


@pytest.mark.parametrize(
    ("letters", "found", "tied", "judged"),
    [
        ("v", "v", False, 1),
        ("x", "x", False, 1),
        ("vv", "v", False, 2),
        ("vx", None, True, 2),
        ("vxx", "x", False, 3),
        ("vxv", "v", False, 3),
        ("v.", "v", False, 1),
        ("..", None, False, 0),
        ("vx.", None, True, 2),
        ("vxvx", None, True, 4),
    ],
)
def test_what_stands(letters: str, found: str | None, tied: bool, judged: int):
    assert standing(letters) == found
    assert is_tied(letters) == tied
    assert judged_by(letters) == judged


def test_who_is_overruled():
    assert overruled({"a": "vvx", "b": "vvx", "c": "vxx"}) == {"c"}
    assert overruled({"a": "vx", "b": "vv"}) == set()
    # Whoever could not judge is never wrong, and makes no majority.
    assert overruled({"a": "v", "b": "x", "c": "."}) == set()
    assert overruled({"a": "v", "b": "v", "c": "."}) == set()
    assert overruled({}) == set()


@pytest.mark.parametrize("share", [0.0, 0.05, 0.5, 1.0])
def test_the_share_that_is_drawn(share: float):
    blocks = [sha256(bytes([block])).hexdigest() for block in range(20)]
    drawn = sum(is_drawn(block, f"unit-{unit}", share) for block in blocks for unit in range(200))
    # 4,000 draws: within five standard deviations.
    assert abs(drawn - 4_000 * share) <= 5 * (4_000 * share * (1 - share)) ** 0.5


def test_the_block_and_the_unit_decide():
    drawn = {(block, unit): is_drawn(block * 64, unit, 0.5) for block in "abcd" for unit in "0123"}
    assert len({tuple(drawn[block, unit] for unit in "0123") for block in "abcd"}) > 1
    assert drawn == {
        (block, unit): is_drawn(block * 64, unit, 0.5) for block in "abcd" for unit in "0123"
    }


def saw(bins: list[int], letters: str = "v" * 20) -> Opinion:
    """An owner that saw a margin of each of these bins at every other token of 20 samples."""
    marks = tuple((2 * place, 0, margin_bin) for place, margin_bin in enumerate(bins))
    return Opinion(letters, (Seen(2 * len(bins), marks),) * len(letters))


@pytest.mark.parametrize(
    ("one", "two", "differs"),
    [
        ([10, 10], [], True),
        ([10, 10], [10, 10], False),
        # Bins that touch may be of one margin.
        ([10, 10], [11, 9], False),
        ([13, 13], [12, 13], False),
        ([13, 13], [9, 9], True),
        # No difference is the least that these may be of.
        ([1, 1], [], False),
        ([3, 4], [4, 3], False),
        # As small as rounding's, and far too often.
        ([3, 3], [], True),
        ([], [], False),
    ],
)
def test_two_that_saw_different_margins_differ(one: list[int], two: list[int], differs: bool):
    first, second = saw([*one, *[0] * (2 - len(one))]), saw([*two, *[0] * (2 - len(two))])
    assert differ(first, second, ASSUMED) is differs
    assert differ(second, first, ASSUMED) is differs


def test_marks_are_compared_where_both_verify_and_are_known():
    shown, blind = saw([10, 10]), saw([0, 0])
    assert differ(shown, blind, ASSUMED)
    assert not differ(saw([10, 10], "x" * 20), blind, ASSUMED)
    assert not differ(shown, Opinion(blind.letters, (None,) * 20), ASSUMED)


def test_most_others_decide_whose_marks_are_wrong():
    shown, blind, odd = saw([10, 10]), saw([0, 0]), saw([13, 13])
    assert at_odds({"a": shown, "b": blind}, ASSUMED) == (set(), True)
    assert at_odds({"a": shown, "b": blind, "c": shown}, ASSUMED) == ({"b"}, False)
    assert at_odds({"a": shown, "b": shown, "c": shown}, ASSUMED) == (set(), False)
    # Each saw something else: nobody's word is worth more.
    assert at_odds({"a": shown, "b": blind, "c": odd}, ASSUMED) == (set(), True)
