"""The reputation of miners."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.reputation import WINDOW, extended, may_lease


@pytest.mark.parametrize(
    ("record", "allowed"),
    [
        ("", True),
        ("xx", True),
        ("xxx", False),
        ("x" + "v" * 3 + "x", True),
        ("xxx" + "v" * 11, False),
        ("xxx" + "v" * 12, True),
        ("x" * 10 + "v" * 40, True),
        ("x" * 11 + "v" * 39, False),
        ("x" * 30 + "v" * 50, True),
    ],
)
def test_three_voids_over_a_fifth_end_the_leases(record: str, allowed: bool):
    assert may_lease(record) is allowed


@given(st.text("vx", max_size=120), st.text("vx", max_size=120))
def test_only_the_latest_samples_count(older: str, newer: str):
    record = extended(extended("", older), newer)
    assert record == (older + newer)[-WINDOW:]
    assert may_lease(record) == may_lease(older + newer)
