"""``docs/money.md`` says what the gateway does."""

import re
from pathlib import Path

from gateway.api.balance import BalanceObject
from gateway.ledger.charges import Bill
from gateway.ledger.money import usd_of
from gateway.store.tables import LedgerKind, TransferKind

DOCUMENT = (Path(__file__).parents[2] / "docs" / "money.md").read_text()


def test_every_kind_of_transfer_and_account_is_named():
    assert set(re.findall(r"^\| `([a-z_]+)` \| `\1:", DOCUMENT, re.MULTILINE)) == set(TransferKind)
    accounts = set(re.findall(r"^- `([a-z]+)[:`]", DOCUMENT, re.MULTILINE))
    assert set(LedgerKind) <= accounts


def test_every_member_with_money_is_named():
    members = {*BalanceObject.model_fields, *Bill(0, 0, 0).members()} - {"object"}
    assert members <= set(re.findall(r"`([a-z_]+)`", DOCUMENT))


def test_amounts_are_written_as_shown():
    assert usd_of(320_375_660) in DOCUMENT
    assert usd_of(1_920_000_000) in DOCUMENT
