"""Prices: the shipped file, files that are wrong, and the one formula of an order's cost."""

from fractions import Fraction
from math import ceil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.catalog.price import Price
from gateway.catalog.prices import SHIPPED, PriceFileError, PriceList, load_prices
from gateway.errors import GatewayError
from gateway.ledger.money import NANO, nano_of

WALKTHROUGH = {"prompt_tokens": 40, "lines": 2, "n": 1, "max_tokens": 64}
BILLION = 10**9

counts = st.integers(0, 10**9)
amounts = st.integers(0, 10**13)
prices = st.builds(
    Price,
    version=st.just("1"),
    size=st.just("x"),
    gpus=st.integers(0, 64),
    gpu_hour_nano=amounts,
    startup_seconds=counts,
    run_seconds=counts,
    prompt_tokens=counts,
    prompt_token_nano=st.integers(0, 10**6),
    samples=st.integers(0, 10**7),
    max_tokens=st.integers(0, 131_072),
    completion_token_nano=st.integers(0, 10**6),
    margin_percent=st.integers(0, 1_000),
    minimum_nano=amounts,
)


def changed(old: str, new: str, folder: Path) -> Path:
    """Write the shipped file with its first ``old`` replaced."""
    text = SHIPPED.read_text()
    assert old in text
    file = folder / "prices.toml"
    file.write_text(text.replace(old, new, 1))
    return file


def test_the_walkthrough_of_8b_costs_about_two_usd():
    price = load_prices().price(8_200_000_000, **WALKTHROUGH)
    assert 1.5 * NANO < price.reserved < 2.5 * NANO
    assert price.gpu_nano > 0.8 * price.reserved


def test_a_tiny_model_stays_below_its_walkthroughs_ceiling():
    assert load_prices().price(100_000, **WALKTHROUGH).reserved < 3 * NANO


def test_each_size_costs_more_than_the_one_before():
    listed = load_prices()
    totals = [listed.price(size.max_parameters, **WALKTHROUGH).reserved for size in listed.sizes]
    assert totals == sorted(set(totals))


def test_the_first_size_that_holds_a_model_counts():
    listed = load_prices()
    first, second = listed.sizes[:2]
    assert listed.price(first.max_parameters, **WALKTHROUGH).size == first.name
    assert listed.price(first.max_parameters + 1, **WALKTHROUGH).size == second.name


def test_a_size_without_a_price_is_refused_for_good():
    with pytest.raises(GatewayError) as error:
        load_prices().price(500 * BILLION, **WALKTHROUGH)
    assert (error.value.status, error.value.code) == (409, "pricing_unavailable")
    assert error.value.final


def test_a_price_by_hand():
    """Two lines of 3 samples of up to 100 tokens, on figures that are easy to follow."""
    listed = PriceList.model_validate(
        {
            "version": "x",
            "minimum_usd": "0.01",
            "margin_percent": 10,
            "sizes": [
                {
                    "name": "all",
                    "max_parameters": BILLION,
                    "gpus": 2,
                    "gpu_hour_usd": "3.60",
                    "startup_seconds": 100,
                    "tokens_per_second": 10,
                    "prompt_usd_per_million": "1",
                    "completion_usd_per_million": "2.001",
                }
            ],
        }
    )
    price = listed.price(5, prompt_tokens=50, lines=2, n=3, max_tokens=100)
    # 3 * 50 ids of prompts and half of 600 completion tokens, 10 a second.
    assert price.run_seconds == 45
    assert price.gpu_nano == nano_of("0.29")
    assert price.prompt_nano == nano_of("0.00005")
    assert price.reserved == nano_of("0.320375660") == price.total(600)
    assert price.estimate == price.total(300) == nano_of("0.319715330")
    assert price.total(0) == nano_of("0.319055")
    assert price.pricing() == {
        "version": "x",
        "size": "all",
        "gpu": {
            "gpus": 2,
            "hour_usd": "3.60",
            "startup_seconds": 100,
            "run_seconds": 45,
            "usd": "0.29",
        },
        "prompt": {"tokens": 50, "usd_per_million": "1.00", "usd": "0.00005"},
        "completion": {"max_tokens": 600, "usd_per_million": "2.001", "usd": "0.0012006"},
        "margin": {"percent": 10, "usd": "0.02912506"},
        "minimum_usd": "0.01",
    }


@given(prices, st.data())
def test_the_formula_in_exact_fractions(price: Price, data: st.DataObject):
    tokens = data.draw(st.integers(0, price.most_tokens))
    hours = Fraction(price.startup_seconds + price.run_seconds, 3_600)
    gpu = ceil(price.gpus * price.gpu_hour_nano * hours)
    parts = gpu + price.prompt_tokens * price.prompt_token_nano
    parts += tokens * price.completion_token_nano
    assert price.total(tokens) == max(
        price.minimum_nano, ceil(parts * Fraction(100 + price.margin_percent, 100))
    )
    # More tokens never cost less, and no charge passes what was reserved.
    assert price.total(0) <= price.total(tokens) <= price.reserved
    assert price.total(0) <= price.estimate <= price.reserved


@given(prices)
def test_a_price_survives_as_json_and_adds_up(price: Price):
    assert Price.from_json(price.to_json()) == price
    shown = price.pricing()
    parts = (shown[part]["usd"] for part in ("gpu", "prompt", "completion", "margin"))
    whole, nano = zip(*(part.split(".") for part in parts), strict=True)
    total = sum(map(int, whole)) * NANO + sum(int(one.ljust(9, "0")) for one in nano)
    assert total == price.reserved


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('version = "2026', 'versions = "2026', "version: Field required"),
        ('minimum_usd = "0.01"', "minimum_usd = 0.01", "minimum_usd: must be a text such as"),
        ('gpu_hour_usd = "3.20"', 'gpu_hour_usd = "-1"', "sizes.0.gpu_hour_usd: '-1' is no amount"),
        ('"0.04"', '"0.0004"', "sizes.0.completion_usd_per_million: may have 3 decimals"),
        ("= 5_000_000_000", "= 2_000_000_000", "the file: max_parameters must rise"),
        ("margin_percent = 20", "margin_percent = 20.5", "margin_percent: Input should be a valid"),
        ("gpus = 1", "gpus = 1\ncolour = 3", "sizes.0.colour: Extra inputs are not permitted"),
        ("[[sizes]]", "[[sizes", "is no TOML"),
    ],
)
def test_a_wrong_file_is_told_by_place(old: str, new: str, said: str, tmp_path: Path):
    with pytest.raises(PriceFileError, match=r"^the price file ") as error:
        load_prices(changed(old, new, tmp_path))
    assert said in str(error.value)


def test_a_file_that_is_not_there(tmp_path: Path):
    with pytest.raises(PriceFileError, match="cannot be read"):
        load_prices(tmp_path / "none.toml")
