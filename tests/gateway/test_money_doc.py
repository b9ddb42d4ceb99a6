"""``docs/money.md`` says what the gateway does."""

import re
from pathlib import Path

from gateway.api.balance import BalanceObject
from gateway.catalog.price import MILLION
from gateway.catalog.prices import load_prices
from gateway.catalog.speeds import speed_of
from gateway.ledger.charges import Bill
from gateway.ledger.money import NANO, usd_of
from gateway.store.tables import LedgerKind, TransferKind

DOCUMENT = (Path(__file__).parents[2] / "docs" / "money.md").read_text()


def test_every_kind_of_transfer_and_account_is_named():
    assert set(re.findall(r"^\| `([a-z_]+)` \| `\1:", DOCUMENT, re.MULTILINE)) == set(TransferKind)
    accounts = set(re.findall(r"^- `([a-z]+)[:`]", DOCUMENT, re.MULTILINE))
    assert set(LedgerKind) <= accounts


def test_every_member_with_money_is_named():
    members = {*BalanceObject.model_fields, *Bill(0, 0, 0).members()} - {"object"}
    assert members <= set(re.findall(r"`([a-z_]+)`", DOCUMENT))


def test_the_shipped_prices_come_to_what_it_says():
    prices = load_prices()
    margin = (100 + prices.margin_percent) / 100
    rows = []
    for size in prices.sizes:
        second = size.gpu_hour_usd / NANO / 3_600
        amounts = (
            size.gpus * second * size.startup_seconds * margin,
            size.gpus * second / size.tokens_per_second * MILLION * margin,
            size.prompt_usd_per_million * MILLION / NANO * margin,
            size.completion_usd_per_million * MILLION / NANO * margin,
            8 * second / speed_of(size.max_parameters) * MILLION,
        )
        fixed, *others = amounts
        rows.append((size.name, f"{fixed:.2f}", *(f"{amount:.3f}" for amount in others)))
    table = re.findall(r"^\| (up to \d+B) \|" + r" ([0-9.]+) \|" * 5 + "$", DOCUMENT, re.MULTILINE)
    assert table == rows


def test_amounts_are_written_as_shown():
    assert usd_of(320_375_660) in DOCUMENT
    assert usd_of(1_920_000_000) in DOCUMENT
