"""USD as text and nano-USD as integers: exact both ways."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.ledger.money import NANO, MoneyError, nano_of, usd_of


@pytest.mark.parametrize(
    ("text", "nano"),
    [
        ("0", 0),
        ("3", 3 * NANO),
        ("3.5", 3_500_000_000),
        ("0.01", 10_000_000),
        ("000000001.10", 1_100_000_000),
        ("0.000000001", 1),
        ("999999999.999999999", 999_999_999_999_999_999),
    ],
)
def test_usd_is_read_exactly(text: str, nano: int):
    assert nano_of(text) == nano


@pytest.mark.parametrize(
    "text",
    ["", ".5", "5.", "-1", "+1", "1e3", "1,000", " 1", "1\n", "٣", "NaN", "1.0000000001", "1" * 10],
)
def test_what_is_no_amount_is_refused(text: str):
    with pytest.raises(MoneyError, match="write it as"):
        nano_of(text)


@pytest.mark.parametrize(
    ("nano", "text"),
    [(0, "0.00"), (1, "0.000000001"), (3 * NANO, "3.00"), (1_920_000_000, "1.92"), (10**7, "0.01")],
)
def test_usd_is_written_with_all_that_it_needs(nano: int, text: str):
    assert usd_of(nano) == text


@given(st.integers(0, 10**18 - 1))
def test_what_is_written_is_read_back(nano: int):
    assert nano_of(usd_of(nano)) == nano


def test_less_than_nothing_is_no_amount():
    with pytest.raises(ValueError, match="less than nothing"):
        usd_of(-1)
