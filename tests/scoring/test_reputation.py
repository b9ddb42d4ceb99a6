"""The reputation of miners."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.reputation import LIFE_MS, WINDOW, extended, may_lease

NOW = 10 * LIFE_MS


@pytest.mark.parametrize(
    ("letters", "allowed"),
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
def test_three_voids_over_a_fifth_end_the_leases(letters: str, allowed: bool):
    record = extended([], letters, NOW)
    assert may_lease(record, NOW, corroborated=False) is allowed


@given(st.text("vxo", max_size=120), st.text("vxo", max_size=120))
def test_only_the_latest_samples_count(older: str, newer: str):
    record = extended(extended([], older, NOW), newer, NOW + 1)
    assert "".join(found for _, found in record) == (older + newer)[-WINDOW:]


def test_a_void_of_one_owners_word_counts_where_another_miner_was_verified():
    record = extended([], "ooo", NOW)
    assert may_lease(record, NOW, corroborated=False)
    assert not may_lease(record, NOW, corroborated=True)
    assert not may_lease(extended(record, "xxx", NOW), NOW, corroborated=False)


def test_what_is_a_day_old_counts_no_longer():
    record = extended([], "xxx", NOW)
    assert not may_lease(record, NOW + LIFE_MS - 1, corroborated=True)
    assert may_lease(record, NOW + LIFE_MS, corroborated=True)
    assert extended(record, "v", NOW + LIFE_MS) == [(NOW + LIFE_MS, "v")]
