"""``reliquary accounts`` and ``reliquary keys`` over a data folder, as an operator uses them."""

import asyncio
import re
import sys
import time
from pathlib import Path

import pytest

from gateway.api_keys import authenticate
from gateway.errors import GatewayError
from gateway.settings import GatewaySettings
from gateway.store.engine import Store
from gateway.store.objects import open_objects
from scripts.cli import main
from scripts.cli.failure import Failure
from scripts.cli.stored import parse_expiry

NOW = 1_762_685_000_000
HOUR = 3_600_000


class Shell:
    """Runs commands on one data folder and keeps what they said."""

    def __init__(self, data: Path, capture: pytest.CaptureFixture[str]) -> None:
        self.data = data
        self._capture = capture

    def __call__(self, *arguments: str, status: int = 0) -> str:
        """Run a command that must end with ``status``; return its output, or its one complaint."""
        with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as left:
            patch.setattr(sys, "argv", ["reliquary", *arguments, "--data", str(self.data)])
            main()
        output, errors = self._capture.readouterr()
        assert (left.value.code or 0) == status, errors
        if not status:
            assert errors == ""
            return output
        assert output == ""
        assert re.fullmatch(r"reliquary: .*\n", errors)
        return errors

    def code_of(self, token: str, at_ms: int | None = None) -> str:
        """Present a key to the store: ``ok``, or the code of its refusal."""

        async def ask() -> str:
            settings = GatewaySettings(data=self.data)
            store = await Store.open(
                settings.database_url.get_secret_value(), open_objects(settings.objects_url)
            )
            try:
                await authenticate(store, token, at_ms or time.time_ns() // 10**6)
            except GatewayError as error:
                return error.code
            finally:
                await store.close()
            return "ok"

        return asyncio.run(ask())


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(tmp_path / "data", capsys)


def test_an_account_is_closed_and_opened(shell: Shell):
    account = shell("accounts", "create", "acme").strip()
    key = shell("keys", "create", "--account", "acme").strip()
    assert shell.code_of(key) == "ok"
    assert shell("accounts", "close", "acme") == "acme is closed\n"
    assert shell.code_of(key) == "orders_unavailable"
    head, row = shell("accounts", "list").splitlines()
    assert head.split() == ["ID", "STATE", "CREATED", "AVAILABLE", "RESERVED", "NAME"]
    assert row.split()[:2] == [account, "closed"]
    assert row.split()[3:] == ["0.00", "0.00", "acme"]
    assert shell("accounts", "open", "acme") == "acme is open\n"
    assert shell.code_of(key) == "ok"


def test_an_account_is_credited_once_for_each_payment(shell: Shell):
    shell("accounts", "create", "acme")
    shell("accounts", "create", "other")
    assert shell("accounts", "credit", "acme", "12.5", "--id", "invoice-7") == "invoice-7\n"
    assert shell("accounts", "credit", "acme", "12.50", "--id", "invoice-7") == "invoice-7\n"
    own = {shell("accounts", "credit", "acme", "0.000000001") for _ in range(2)}
    assert len(own) == 2
    said = shell("accounts", "credit", "other", "12.50", "--id", "invoice-7", status=1)
    assert "top_up:invoice-7" in said
    assert "top_up:invoice-7" in shell(
        "accounts", "credit", "acme", "12.51", "--id", "invoice-7", status=1
    )
    first, *figures = shell("accounts", "show", "acme").splitlines()
    assert first.startswith("acme (") and first.endswith(") is open")
    assert figures[:4] == [
        "available  12.500000002 USD",
        "reserved   0.00 USD",
        "charged    0.00 USD",
        "credited   12.500000002 USD",
    ]
    assert {row.split()[2] for row in figures[5:]} == {
        "top_up:invoice-7", *(f"top_up:{one.strip()}" for one in own),
    }  # fmt: skip
    assert "12.500000002" in shell("accounts", "list")
    assert shell("ledger", "check") == (
        "OK: 1 accounts, 3 transfers, 0 orders; credited 12.500000002 USD, charged 0.00 USD, "
        "reserved 0.00 USD\n"
    )


def test_a_mistaken_payment_is_taken_back_once(shell: Shell):
    shell("accounts", "create", "acme")
    said = shell("accounts", "debit", "acme", "1", status=1)
    assert "was never topped up" in said
    shell("accounts", "credit", "acme", "100", "--id", "invoice-7")
    for _ in range(2):
        assert shell("accounts", "debit", "acme", "90", "--id", "invoice-7") == "invoice-7\n"
    assert "withdrawal:invoice-7" in shell(
        "accounts", "debit", "acme", "9", "--id", "invoice-7", status=1
    )
    assert "10.00 USD of the account" in shell("accounts", "debit", "acme", "10.01", status=1)
    for wrong in ("0", "1e3", "x"):
        shell("accounts", "debit", "acme", wrong, status=1)
    _, *figures = shell("accounts", "show", "acme").splitlines()
    assert figures[:4] == [
        "available  10.00 USD",
        "reserved   0.00 USD",
        "charged    0.00 USD",
        "credited   10.00 USD",
    ]
    assert {row.split()[2] for row in figures[5:]} == {"top_up:invoice-7", "withdrawal:invoice-7"}
    assert "credited 10.00 USD" in shell("ledger", "check")


def test_a_key_is_listed_without_its_secret_and_revoked(shell: Shell):
    first = shell("keys", "create", "--scope", "orders:write").strip()
    second = shell("keys", "create", "--account", "other").strip()
    listed = shell("keys", "list")
    rows = [row.split() for row in listed.splitlines()[1:]]
    assert [(row[1], row[2], row[3], row[4], row[6]) for row in rows] == [
        (first[:12], "default", "valid", "orders:write", "-"),
        (second[:12], "other", "valid", "orders:write", "-"),
    ]
    assert first[12:] not in listed
    assert shell("keys", "revoke", rows[0][0]) == f"{first[:12]} is revoked\n"
    assert (shell.code_of(first), shell.code_of(second)) == ("invalid_api_key", "ok")
    assert "revoked" in shell("keys", "list", "--account", "default")
    assert second[:12] not in shell("keys", "list", "--account", "default")


def test_a_key_expires(shell: Shell):
    key = shell("keys", "create", "--expires", "30d").strip()
    now = time.time_ns() // 10**6
    assert shell.code_of(key) == "ok"
    assert shell.code_of(key, now + 29 * 24 * HOUR) == "ok"
    assert shell.code_of(key, now + 30 * 24 * HOUR + 1) == "invalid_api_key"


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (("accounts", "close", "nobody"), 1, "there is no account named 'nobody'"),
        (("accounts", "open", "nobody"), 1, "there is no account named 'nobody'"),
        (("accounts", "credit", "nobody", "1"), 1, "there is no account named 'nobody'"),
        (("accounts", "show", "nobody"), 1, "there is no account named 'nobody'"),
        (("accounts", "credit", "somebody", "1,50"), 1, "'1,50' is no amount in USD"),
        (("accounts", "credit", "somebody", "0"), 1, "a top-up is more than 0 USD"),
        (("accounts", "credit", "somebody", "1", "--id", "a b"), 1, "a payment's id is 1 to 80"),
        (("keys", "list", "--account", "nobody"), 1, "there is no account named 'nobody'"),
        (("keys", "revoke", "rlq_00000000"), 1, "no key has this id or prefix"),
        (("keys", "create", "--scope", "all"), 1, "scopes of orders:write; found all"),
        (("keys", "create", "--expires", "soon"), 2, "--expires: 'soon' is neither"),
        (("keys", "create", "--expires", "2020-01-01"), 2, "--expires: '2020-01-01' has passed"),
    ],
)
def test_mistakes_are_told_in_one_line(
    shell: Shell, arguments: tuple[str, ...], status: int, said: str
):
    shell("accounts", "create", "somebody")
    assert said in shell(*arguments, status=status)


def test_a_folder_that_holds_no_database(shell: Shell):
    shell.data.mkdir()
    (shell.data / "gateway.sqlite").write_bytes(b"x" * 4_096)
    assert "the gateway's database cannot be used: " in shell("accounts", "list", status=1)


@pytest.mark.parametrize(
    ("text", "at_ms"),
    [
        ("90m", NOW + 90 * 60_000),
        ("12h", NOW + 12 * HOUR),
        ("30d", NOW + 720 * HOUR),
        ("2025-11-10", 1_762_732_800_000),
        ("2025-11-10T01:00", 1_762_736_400_000),
        ("2025-11-10T02:00+01:00", 1_762_736_400_000),
    ],
)
def test_expiry(text: str, at_ms: int):
    assert parse_expiry(text, NOW) == at_ms


@pytest.mark.parametrize("text", ["", "0d", "-1d", "1y", "1.5h", "٣d", "12", "2025-11-09T00:00Z"])
def test_expiries_that_are_none(text: str):
    with pytest.raises(Failure):
        parse_expiry(text, NOW)
