"""Money over HTTP: the balance, what an order reserves, and a price file that is wrong."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from live_gateway import LiveGateway, live_gateway
from raw_customer import RawCustomer
from small_model import small_model_hub

from gateway.accounts import find_account
from gateway.ledger.charges import bills
from gateway.ledger.money import NANO, nano_of, usd_of
from gateway.orders.reading import get_order
from gateway.serve import ServeError, serve
from gateway.settings import GatewaySettings


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("hub")
    with small_model_hub(folder):
        yield folder


@pytest.fixture(scope="module")
def gateway(hub: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveGateway]:
    with live_gateway(tmp_path_factory.mktemp("gateway")) as running:
        yield running


def balance(place: RawCustomer) -> dict[str, str]:
    answer = place.call("GET", f"{place.gateway.origin}/api/v1/balance")
    assert answer.status_code == 200, answer.text
    shown = answer.json()
    assert shown.pop("object") == "balance"
    return {name.removesuffix("_usd"): usd for name, usd in shown.items()}


def test_the_balance_follows_an_order(
    gateway: LiveGateway, hub: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = RawCustomer(gateway, hub, tmp_path, "saver", monkeypatch)
    nothing = {"available": "1000000.00", "reserved": "0.00", "charged": "0.00"}
    nothing["credited"] = "1000000.00"
    assert balance(place) == nothing
    made = place.create(metadata={"max_price_usd": "3"}).json()
    order_id = made["id"].removeprefix("batch_")
    state = gateway.state
    placed = gateway.run(get_order(state.store, _account(gateway, place), order_id))
    bill = gateway.run(bills(state.store, [placed]))[order_id]
    shown = balance(place)
    assert shown["reserved"] == usd_of(bill.price)
    assert nano_of(shown["available"]) == 1_000_000 * NANO - bill.price
    assert "usage" not in place.call("GET", f"{gateway.openrelay_url}/batches/{made['id']}").json()
    place.cancel(made["id"])
    assert balance(place) == nothing


def _account(gateway: LiveGateway, place: RawCustomer) -> str:
    return gateway.run(find_account(gateway.state.store, place.account)).id


def test_an_account_that_nobody_topped_up_has_nothing(gateway: LiveGateway) -> None:
    key = gateway.new_key("penniless", usd=None)
    headers = {"Authorization": f"Bearer {key}"}
    shown = httpx.get(f"{gateway.origin}/api/v1/balance", headers=headers).json()
    assert set(shown.values()) == {"balance", "0.00"}


def test_a_balance_needs_a_key(gateway: LiveGateway) -> None:
    answer = httpx.get(f"{gateway.origin}/api/v1/balance")
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "invalid_api_key")


def test_no_gateway_starts_on_a_wrong_price_file(tmp_path: Path) -> None:
    prices = tmp_path / "prices.toml"
    prices.write_text('version = "x"\n')
    settings = GatewaySettings(data=tmp_path / "data", prices=prices)
    with pytest.raises(ServeError, match="minimum_usd: Field required"):
        serve(settings)
