"""Quotes and orders over the native routes, against a live gateway without nodes."""

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest
from batch_rows import COMPLETIONS, request
from live_gateway import LiveGateway, live_gateway
from native_customer import NativeCustomer
from small_model import MODEL, small_model_hub

from gateway.orders import kept_quotes
from gateway.orders.content import CONTENT, object_key
from gateway.store.objects import ObjectMissing

NOBODY = "01a22870-0000-7000-8000-000000000000"
HOUR_S = 3_600
LINES = [
    request("q1", max_tokens=16, n=2),
    request("q2", max_tokens=16, n=2, stop="x"),
    request("q3", max_tokens=16, n=2),
]


class Clock:
    """The gateway's clock, which tests set forward."""

    def __init__(self) -> None:
        self.now = 1_762_685_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(scope="module")
def clock() -> Clock:
    return Clock()


@pytest.fixture(scope="module")
def commit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with small_model_hub(tmp_path_factory.mktemp("hub")) as commit:
        yield commit


@pytest.fixture(scope="module")
def gateway(
    commit: str, clock: Clock, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LiveGateway]:
    with live_gateway(tmp_path_factory.mktemp("gateway"), clock) as running:
        yield running


@pytest.fixture
def customer(gateway: LiveGateway, commit: str, request: pytest.FixtureRequest) -> NativeCustomer:
    return NativeCustomer(gateway, request.node.name[:60].replace("[", "-").rstrip("]"), commit)


def refused(answer: httpx.Response, status: int, code: str, param: str | None) -> None:
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert (error["code"], error["param"]) == (code, param), error
    assert error["message"]


def test_a_quote_tells_what_an_order_would_be(customer: NativeCustomer) -> None:
    quote = customer.quote(*LINES, b"not json")
    assert (quote["model"], quote["revision"]) == (MODEL, customer.commit)
    assert (quote["status"], quote["order_id"]) == ("open", None)
    assert quote["expires_at"] == quote["created_at"] + 24 * HOUR_S
    assert (quote["endpoint"], quote["output_format"]) == ("/v1/chat/completions", "parquet")
    assert (quote["n"], quote["seed"], quote["completion_window"]) == (2, 7, "168h")
    assert quote["sampling"]["max_tokens"] == 16
    counts = quote["counts"]
    assert (counts["lines"], counts["lines_refused"], counts["samples"]) == (4, 2, 4)
    assert counts["max_completion_tokens"] == 64
    assert [(row["line"], row["custom_id"], row["code"]) for row in quote["line_errors"]] == [
        (2, "q2", "stop_unavailable"),
        (4, "", "invalid_json"),
    ]
    preview = quote["preview"]
    assert [row["custom_id"] for row in preview] == ["q1", "q3"]
    assert "hello q1" in preview[0]["text"] and preview[0]["text"].startswith("<|im_start|>")
    assert sum(row["prompt_tokens"] for row in preview) == counts["prompt_tokens"]
    parts = (quote["pricing"][name]["usd"] for name in ("gpu", "prompt", "completion", "margin"))
    assert sum(map(Decimal, parts)) == Decimal(quote["price_usd"]) > 0
    assert quote["pricing"]["prompt"]["tokens"] == counts["prompt_tokens"]
    assert quote["pricing"]["completion"]["max_tokens"] == 64
    assert quote["estimate"]["completion_tokens"] == 32
    assert Decimal(quote["estimate"]["price_usd"]) < Decimal(quote["price_usd"])
    assert customer.get(f"/dataset-orders/quotes/{quote['id']}") == quote
    # Nothing is ordered by it.
    assert customer.get("/dataset-orders")["data"] == []


def test_what_a_quote_shows_is_bounded(customer: NativeCustomer) -> None:
    lines = [request(f"q{at}", stop="x") for at in range(150)]
    lines += [request(f"r{at}", messages=[{"role": "user", "content": "x" * 5_000}])
              for at in range(9)]  # fmt: skip
    quote = customer.quote(*lines)
    assert len(quote["line_errors"]) == 100
    assert [len(row["text"]) for row in quote["preview"]] == [2_000] * 5


def test_max_new_tokens_fills_in_what_lines_leave_out(customer: NativeCustomer) -> None:
    without = request("q1", max_tokens=None)
    quote = customer.quote(without, max_new_tokens=20)
    assert quote["sampling"]["max_tokens"] == 20
    placed = customer.place(quote["id"]).json()
    assert placed["sampling"]["max_tokens"] == 20
    conflict = customer.ask(request("q1", max_tokens=21), max_new_tokens=20)
    refused(conflict, 422, "max_tokens_conflict", "max_new_tokens")
    for value in (15, 131_073, "64", 20.5, True):
        refused(customer.ask(max_new_tokens=value), 422, "invalid_max_tokens", "max_new_tokens")


def test_completions_are_told_by_their_lines(customer: NativeCustomer) -> None:
    quote = customer.quote(request("c1", COMPLETIONS, prompt=[1, 2, 3]))
    assert quote["endpoint"] == "/v1/completions"
    assert (quote["preview"][0]["text"], quote["preview"][0]["token_ids"]) == (None, [1, 2, 3])


BAD_FIELDS: list[tuple[dict[str, Any], int, str, str]] = [
    ({"model": "small"}, 400, "invalid_model", "model"),
    ({"model": None}, 400, "invalid_model", "model"),
    ({"model": 7}, 400, "invalid_model", "model"),
    ({"model": "reliquary/nowhere"}, 422, "model_not_found", ""),
    ({"revision": "main"}, 400, "invalid_revision", "revision"),
    ({"revision": None}, 400, "invalid_revision", "revision"),
    ({"revision": "0" * 40}, 400, "invalid_revision", "revision"),
    ({"input_file_id": f"file-{NOBODY}"}, 404, "file_not_found", "input_file_id"),
    ({"input_file_id": 7}, 400, "invalid_request", "input_file_id"),
    ({"output_format": "csv"}, 400, "invalid_output_format", "output_format"),
    ({"grader": "magic"}, 400, "grader_unknown", "grader"),
    ({"completion_window": "23h"}, 400, "invalid_completion_window", "completion_window"),
    ({"completion_window": "1d"}, 400, "invalid_completion_window", "completion_window"),
    ({"max_tokens": 64}, 400, "invalid_request", "max_tokens"),
]


@pytest.mark.parametrize(("changes", "status", "code", "param"), BAD_FIELDS)
def test_a_quote_is_refused(
    customer: NativeCustomer, changes: dict[str, Any], status: int, code: str, param: str
) -> None:
    refused(customer.ask(**changes), status, code, param or None)


def test_a_file_that_cannot_be_ordered(customer: NativeCustomer) -> None:
    refused(customer.ask(request("q1"), request("q2", top_p=0.5)), 422, "mixed_sampling",
        "input_file_id")  # fmt: skip
    refused(customer.ask(request("q1", stop="x")), 422, "invalid_batch_file", "input_file_id")
    graded = customer.ask(request("q1"), grader="exact_match_v1")
    refused(graded, 422, "invalid_batch_file", "input_file_id")
    begun = customer.call(
        "POST", "/files", json={"filename": "a.jsonl", "bytes": 9, "purpose": "batch"}
    )
    not_ready = customer.ask(input_file_id=begun.json()["id"])
    refused(not_ready, 409, "file_not_ready", "input_file_id")
    assert not_ready.headers["retry-after"] == "5"


def test_a_quote_is_ordered_once(customer: NativeCustomer) -> None:
    quote = customer.quote(*LINES, output_format="openai_jsonl", completion_window="48h")
    key = "order-once-0000001"
    placed = customer.place(quote["id"], key)
    assert placed.status_code == 200, placed.text
    order = placed.json()
    assert order["id"] == quote["id"]
    assert (order["state"], order["status"]) == ("queued", "validating")
    assert (order["price_usd"], order["refunded_usd"]) == (quote["price_usd"], None)
    balance = customer.get("/balance")
    assert balance["reserved_usd"] == quote["price_usd"]
    assert (order["placed_through"], order["output_format"]) == ("native", "openai_jsonl")
    assert order["expires_at"] == order["created_at"] + 48 * HOUR_S
    assert (order["seed"], order["seed_drawn"], order["n"]) == (7, False, 2)
    assert (order["progress"]["lines_total"], order["progress"]["samples_total"]) == (3, 4)
    assert order["queue"]["queue_position"] >= 1
    assert order["deliveries"] == [] and order["evaluation"] is None
    assert customer.place(quote["id"], key).json() == order
    again = customer.place(quote["id"], "order-once-0000002")
    refused(again, 409, "quote_ordered", "quote_id")
    assert again.headers["x-should-retry"] == "false"
    other = customer.quote(*LINES)
    conflict = customer.place(other["id"], key)
    refused(conflict, 409, "idempotency_conflict", "Idempotency-Key")
    shown = customer.get(f"/dataset-orders/quotes/{quote['id']}")
    assert (shown["status"], shown["order_id"]) == ("ordered", order["id"])


def test_an_order_reads_what_its_quote_stored(
    gateway: LiveGateway, customer: NativeCustomer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is rendered or stored again: there is one set of objects."""
    quote = customer.quote(*LINES)
    objects = gateway.state.store.objects

    async def sizes() -> list[int]:
        return [await objects.size(object_key(quote["id"], name)) for name in CONTENT]

    assert all(gateway.run(sizes()))

    async def refuse(*_: object) -> None:
        raise AssertionError("an object is written")

    monkeypatch.setattr(objects, "put", refuse)
    order = customer.place(quote["id"]).json()
    assert order["progress"]["prompt_tokens"] == quote["counts"]["prompt_tokens"]


def test_an_order_is_refused(customer: NativeCustomer, gateway: LiveGateway, commit: str) -> None:
    refused(customer.place(NOBODY), 404, "quote_not_found", "quote_id")
    refused(customer.place("x" * 81), 400, "invalid_request", "quote_id")
    quote = customer.quote()
    for key in ("short", "x" * 81, "with.periods.in.it", "with:colons:in:it1"):
        refused(customer.place(quote["id"], key), 400, "invalid_idempotency_key", "Idempotency-Key")
    missing = customer.call("POST", "/dataset-orders", json={"quote_id": quote["id"]})
    refused(missing, 400, "invalid_idempotency_key", "Idempotency-Key")
    stranger = NativeCustomer(gateway, "a-stranger", commit)
    refused(stranger.place(quote["id"]), 404, "quote_not_found", "quote_id")
    for path in (f"/dataset-orders/quotes/{quote['id']}", f"/dataset-orders/quotes/{NOBODY}"):
        refused(stranger.call("GET", path), 404, "quote_not_found", "quote_id")
    deleted = customer.call("DELETE", f"/files/{quote['input_file_id']}")
    assert deleted.status_code == 200
    refused(customer.place(quote["id"]), 409, "order_refused", "input_file_id")


def test_an_order_needs_money(gateway: LiveGateway, commit: str) -> None:
    poor = NativeCustomer(gateway, "a-poor-customer", commit, usd="0.02")
    quote = poor.quote()
    answer = poor.place(quote["id"])
    refused(answer, 402, "insufficient_balance", None)
    assert poor.get("/balance")["reserved_usd"] == "0.00"
    # The quote stays for when there is money.
    assert poor.get(f"/dataset-orders/quotes/{quote['id']}")["status"] == "open"


def test_so_many_orders_are_open_at_most(customer: NativeCustomer) -> None:
    file_id = customer.upload()
    quotes = [customer.quote(input_file_id=file_id)["id"] for _ in range(6)]
    placed = [customer.place(quote_id) for quote_id in quotes]
    assert [answer.status_code for answer in placed] == [200] * 5 + [429]
    refused(placed[5], 429, "order_limit", None)
    assert customer.call("POST", f"/dataset-orders/{quotes[0]}/cancel").status_code == 200
    # The quote is still there.
    assert customer.place(quotes[5]).status_code == 200


def test_orders_of_every_api_are_listed_and_cancelled(
    gateway: LiveGateway, customer: NativeCustomer
) -> None:
    native = customer.order(*LINES)
    client = gateway.client(customer.key)
    batch = client.batches.create(
        input_file_id=native["input_file_id"],
        endpoint="/v1/chat/completions",
        completion_window="24h",
    )
    page = customer.get("/dataset-orders?limit=1")
    assert (page["has_more"], page["data"][0]["batch_id"]) == (True, batch.id)
    assert page["data"][0]["placed_through"] == "openai"
    page = customer.get(f"/dataset-orders?limit=1&after={page['last_id']}")
    assert (page["has_more"], [row["id"] for row in page["data"]]) == (False, [native["id"]])
    assert client.batches.retrieve(native["batch_id"]).status == "validating"
    assert [row.id for row in client.batches.list()] == [batch.id, native["batch_id"]]
    for order_id in (native["id"], batch.id.removeprefix("batch_")):
        asked = customer.call("POST", f"/dataset-orders/{order_id}/cancel", content=b"{")
        assert asked.json()["state"] in ("cancelling", "cancelled")
        cancelled = customer.wait(order_id)
        assert cancelled["state"] == cancelled["status"] == "cancelled"
        assert cancelled["ended_at"] is not None
        assert cancelled["charged_usd"] == "0.00"
        assert cancelled["refunded_usd"] == cancelled["price_usd"] != "0.00"
        assert [file["kind"] for file in cancelled["deliveries"][0]["files"]].count("errors") == 1
        again = customer.call("POST", f"/dataset-orders/{order_id}/cancel")
        refused(again, 409, "batch_not_cancellable", None)
    for path in (f"/dataset-orders/{NOBODY}", "/dataset-orders/x", "/dataset-orders/quotes"):
        refused(customer.call("GET", path), 404, "not_found", None)
    refused(customer.call("POST", f"/dataset-orders/{NOBODY}/cancel"), 404, "not_found", None)
    for cursor in (NOBODY, "x%00", "x" * 81):
        bad = customer.call("GET", f"/dataset-orders?after={cursor}")
        refused(bad, 400, "invalid_request", "after")


def test_a_quote_expires(customer: NativeCustomer, gateway: LiveGateway, clock: Clock) -> None:
    ordered, left = customer.quote(), customer.quote()
    order = customer.place(ordered["id"], "before-it-expires")
    assert order.status_code == 200
    clock.now += 24 * HOUR_S
    try:
        assert customer.get(f"/dataset-orders/quotes/{left['id']}")["status"] == "expired"
        late = customer.place(left["id"])
        refused(late, 409, "quote_expired", "quote_id")
        store = gateway.state.store
        gateway.run(kept_quotes.sweep(store, gateway.state.now_ms() + kept_quotes.GRACE_MS))
        gone = customer.call("GET", f"/dataset-orders/quotes/{left['id']}")
        refused(gone, 404, "quote_not_found", "quote_id")

        async def kept(quote_id: str) -> bool:
            return bool(await store.objects.size(object_key(quote_id, "prompts.bin")))

        assert gateway.run(kept(ordered["id"]))
        with pytest.raises(ObjectMissing):
            gateway.run(kept(left["id"]))
        # A repeat finds the order still.
        assert customer.place(ordered["id"], "before-it-expires").json()["id"] == ordered["id"]
    finally:
        clock.now -= 24 * HOUR_S


def test_quotes_count_with_those_of_batches(
    commit: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    with live_gateway(tmp_path / "gateway", quotes_per_day=2) as gateway:
        customer = NativeCustomer(gateway, "few-quotes", commit)
        file_id = customer.upload()
        assert customer.ask(input_file_id=file_id).status_code == 200
        client = gateway.client(customer.key)
        batch = client.batches.create(
            input_file_id=file_id, endpoint="/v1/chat/completions", completion_window="24h"
        )
        client.batches.cancel(batch.id)
        assert customer.wait(batch.id.removeprefix("batch_"))["state"] == "cancelled"
        refused(customer.ask(input_file_id=file_id), 429, "rate_limited", None)
        folders = [path for path in gateway.state.settings.incoming.iterdir() if path.is_dir()]
        assert folders == []


def test_the_document_is_served(gateway: LiveGateway) -> None:
    document = httpx.get(f"{gateway.origin}/api/v1/openapi.json").json()
    assert json.dumps(document).count("operationId") > 10
