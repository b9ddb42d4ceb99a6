"""Several opinions on one result: which stands, and who is overruled."""

from hashlib import sha256

import pytest

from scoring.opinions import is_drawn, is_tied, judged_by, overruled, standing


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
