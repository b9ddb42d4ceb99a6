"""Every error that the contract names, each provoked over HTTP.

The codes of single lines are in ``test_line_codes.py``.
"""

import os
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from batch_rows import COMPLETIONS, request
from live_gateway import LiveGateway, live_gateway
from raw_customer import RawCustomer
from small_model import small_model_hub

from gateway.accounts import find_account, set_account_state
from gateway.api.errors import FINAL_CODES, error_type
from gateway.api.openai_files import MAX_UPLOAD_BYTES
from gateway.api_keys import list_keys
from gateway.catalog.prices import SHIPPED
from gateway.orders import quotes
from gateway.store.tables import AccountState
from scripts.hub.store import set_access

SEEDS = Path(__file__).parents[3] / "shared" / "seeds"
QUOTES_PER_DAY = 7
NOBODY = "00000000-0000-7000-8000-000000000000"
# The OpenAPI's further codes.
FURTHER = {
    "invalid_file", "invalid_idempotency_key", "grader_unknown", "not_available",
    "batch_not_found", "not_found", "server_error",
}  # fmt: skip


Act = Callable[[RawCustomer], httpx.Response]


def no_scope(place: RawCustomer) -> httpx.Response:
    async def strip() -> None:
        store = place.gateway.state.store
        account = await find_account(store, place.account)
        async with store.write() as session:
            for key, _ in await list_keys(store, account.id):
                key.scopes = ""
                session.add(key)

    place.gateway.run(strip())
    return place.call("GET", "/files")


def closed(place: RawCustomer) -> httpx.Response:
    store = place.gateway.state.store
    place.gateway.run(set_account_state(store, place.account, AccountState.CLOSED))
    return place.call("GET", "/files")


def conflict(place: RawCustomer) -> httpx.Response:
    headers = {"Idempotency-Key": f"the-key-of-{place.account}"}
    file_id = place.upload()
    assert place.create(input_file_id=file_id, headers=headers).status_code == 200
    return place.create(input_file_id=file_id, completion_window="25h", headers=headers)


def cancelled_twice(place: RawCustomer) -> httpx.Response:
    batch = place.create().json()["id"]
    place.cancel(batch)
    return place.call("POST", f"/batches/{batch}/cancel")


def deleted_meanwhile(place: RawCustomer) -> httpx.Response:
    """Delete the file after it was quoted and before the order is placed."""
    file_id = place.upload()
    count = quotes.count_quote

    async def deleting(*args: Any) -> None:
        await count(*args)
        async with httpx.AsyncClient(headers=place.auth) as other:
            answer = await other.delete(f"{place.gateway.openrelay_url}/files/{file_id}")
        assert answer.status_code == 200

    place.patch.setattr("gateway.api.ordering.count_quote", deleting)
    return place.create(input_file_id=file_id)


def poor(place: RawCustomer) -> httpx.Response:
    """Order on an account that nobody topped up."""
    key = place.gateway.new_key(f"{place.account}-too", usd=None)
    place.auth = {"Authorization": f"Bearer {key}"}
    return place.create()


def in_use(place: RawCustomer) -> httpx.Response:
    file_id = place.upload()
    assert place.create(input_file_id=file_id).status_code == 200
    return place.call("DELETE", f"{place.gateway.openrelay_url}/files/{file_id}")


def six_open(place: RawCustomer) -> httpx.Response:
    file_id = place.upload()
    for _ in range(5):
        assert place.create(input_file_id=file_id).status_code == 200
    return place.create(input_file_id=file_id)


def too_many_quotes(place: RawCustomer) -> httpx.Response:
    file_id = place.upload()
    for _ in range(QUOTES_PER_DAY):
        batch = place.create(input_file_id=file_id).json()["id"]
        place.call("POST", f"/batches/{batch}/cancel")
    return place.create(input_file_id=file_id)


def dead_reader(place: RawCustomer) -> httpx.Response:
    """Kill the process that reads files."""
    for worker in place.gateway.state.intake._workers:
        assert worker._process is not None
        assert worker._process.pid is not None
        os.kill(worker._process.pid, signal.SIGKILL)
    return place.create()


def hub_away(place: RawCustomer) -> httpx.Response:
    place.patch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    return place.create(request("q1", model="reliquary/other"))


def unforeseen(place: RawCustomer) -> httpx.Response:
    async def fail(*_: object, **__: object) -> None:
        raise RuntimeError("nobody foresaw this")

    place.patch.setattr("gateway.api.openai_files.files_of", fail)
    return place.call("GET", "/files")


def not_ready(place: RawCustomer) -> httpx.Response:
    """Order a file of which no part has arrived."""
    body = {"filename": "in.jsonl", "bytes": 9, "purpose": "batch"}
    begun = place.call("POST", f"{place.gateway.origin}/api/v1/files", json=body)
    return place.create(input_file_id=begun.json()["id"])


def conflicting_tokens(place: RawCustomer) -> httpx.Response:
    """Ask natively for another max_tokens than the lines have."""
    orders = f"{place.gateway.origin}/api/v1/dataset-orders"
    batch_id = place.create().json()["id"]
    order = place.call("GET", f"{orders}/{batch_id.removeprefix('batch_')}").json()
    body = {name: order[name] for name in ("model", "revision", "input_file_id")}
    return place.call("POST", f"{orders}/quotes", json=body | {"max_new_tokens": 16})


def hidden(**access: Any) -> Act:
    def act(place: RawCustomer) -> httpx.Response:
        line = place.model(place.account)
        set_access(place.hub / "hub", f"reliquary/{place.account}", **access)
        return place.create(line)

    return act


def of_model(name: str, **config: Any) -> Act:
    return lambda place: place.create(place.model(name, **config))


def beyond_the_window(place: RawCustomer) -> httpx.Response:
    """Order more tokens than a day is long, with as few lines as may be."""
    line = place.model("patient", max_position_embeddings=200_000)
    body = line["body"] | {"n": 64, "max_tokens": 131_072}
    return place.create(*(line | {"custom_id": f"q{at}", "body": body} for at in range(700)))


def creating(*lines: dict[str, Any], **changes: Any) -> Act:
    return lambda place: place.create(*lines, **changes)


def getting(path: str, **options: Any) -> Act:
    return lambda place: place.call("GET", path, **options)


def uploading(content: bytes = b"{}", purpose: str = "batch", name: str = "a.jsonl") -> Act:
    form = {"data": {"purpose": purpose}, "files": {"file": (name, content)}}
    return lambda place: place.call("POST", "/files", **form)


CHUNKED = {"Content-Type": "multipart/form-data; boundary=x"}
LINE = request("q1")

# Name, status, code, param, how it is provoked.
REFUSALS: list[tuple[str, int, str, str | None, Act]] = [
    ("key", 401, "invalid_api_key", None, getting("/files", headers={"Authorization": "Bearer x"})),
    ("scope", 403, "insufficient_scope", None, no_scope),
    ("closed", 403, "orders_unavailable", None, closed),
    ("endpoint", 400, "invalid_endpoint", "endpoint", creating(endpoint="/v1/embeddings")),
    ("window", 400, "invalid_completion_window", "completion_window",
        creating(completion_window="999h")),
    ("metadata", 400, "invalid_metadata", "metadata.a", creating(metadata={"a": 1})),
    ("price", 400, "invalid_metadata", "metadata.max_price_usd",
        creating(metadata={"max_price_usd": "cheap"})),
    ("grader", 400, "grader_unknown", "metadata.reliquary_grader",
        creating(metadata={"reliquary_grader": "x"})),
    ("no model", 400, "invalid_model", "input_file_id", creating(request("q1", model=None))),
    ("model", 400, "invalid_model", "metadata.model", creating(metadata={"model": "x"})),
    ("revision", 400, "invalid_revision", "metadata.revision",
        creating(metadata={"revision": "main"})),
    ("commit", 400, "invalid_revision", "metadata.revision",
        creating(metadata={"revision": "0" * 40})),
    ("mismatch", 400, "endpoint_mismatch", "endpoint", creating(endpoint=COMPLETIONS)),
    ("purpose", 400, "invalid_file", "purpose", uploading(purpose="fine-tune")),
    ("filename", 400, "invalid_file", "file", uploading(name=".hidden")),
    ("empty", 400, "invalid_file", "file", uploading(b"")),
    ("idempotency", 400, "invalid_idempotency_key", "Idempotency-Key",
        creating(headers={"Idempotency-Key": "short"})),
    ("limit", 400, "invalid_request", "limit", getting("/batches?limit=101")),
    ("cursor", 400, "invalid_request", "after", getting(f"/batches?after=batch_{NOBODY}")),
    ("file", 404, "file_not_found", None, getting(f"/files/file-{NOBODY}/content")),
    ("input", 404, "file_not_found", "input_file_id", creating(input_file_id=f"file-{NOBODY}")),
    ("batch", 404, "batch_not_found", None, getting(f"/batches/batch_{NOBODY}")),
    ("route", 404, "not_found", None, getting("/nowhere")),
    ("method", 405, "method_not_allowed", None, lambda place: place.call("PUT", "/files")),
    ("length", 411, "length_required", None,
        lambda place: place.call("POST", "/files", content=iter([b"--x"]), headers=CHUNKED)),
    ("upload", 413, "file_too_large", "file", uploading(b"x" * (MAX_UPLOAD_BYTES + 1))),
    ("kind", 415, "unsupported_media_type", None,
        lambda place: place.call("POST", "/batches", content=b"x", headers={
            "Content-Type": "text/plain"})),
    ("range", 416, "range_not_satisfiable", "Range",
        lambda place: place.call("GET", f"/files/{place.upload()}/content", headers={
            "Range": "bytes=9999999-"})),
    ("lines", 422, "invalid_batch_file", "input_file_id",
        creating(LINE, *[{}] * 50_000)),
    ("usable", 422, "invalid_batch_file", "input_file_id", creating(request("q1", stop="x"))),
    ("mixed", 422, "mixed_sampling", "input_file_id", creating(LINE, request("q2", top_p=0.5))),
    ("max_tokens", 422, "invalid_max_tokens", "input_file_id",
        creating(request("q1", max_tokens=15))),
    ("context", 422, "context_too_long", "input_file_id",
        creating(request("q1", max_tokens=32_768))),
    # To a stranger the hub does not tell a private repository from none.
    ("private", 422, "model_not_found", None, hidden(private=True)),
    ("gated", 422, "model_private", None, hidden(gated="manual")),
    ("nowhere", 422, "model_not_found", None, creating(request("q1", model="reliquary/nowhere"))),
    ("quantized", 422, "model_unsupported", None,
        of_model("quantized", quantization_config={"quant_method": "fp8"})),
    ("architecture", 422, "architecture_unsupported", None,
        of_model("llama", architectures=["LlamaForCausalLM"])),
    ("size", 422, "model_too_large", None, of_model("huge", num_hidden_layers=1_000_000)),
    ("deadline", 422, "exceeds_generation_deadline", None, beyond_the_window),
    ("ceiling", 402, "price_above_max", "metadata.max_price_usd",
        creating(metadata={"max_price_usd": "0.01"})),
    ("balance", 402, "insufficient_balance", None, poor),
    ("conflict", 409, "idempotency_conflict", "Idempotency-Key", conflict),
    ("twice", 409, "batch_not_cancellable", None, cancelled_twice),
    ("deleted", 409, "order_refused", "input_file_id", deleted_meanwhile),
    ("in use", 409, "file_in_use", None, in_use),
    ("not ready", 409, "file_not_ready", "input_file_id", not_ready),
    ("tokens", 422, "max_tokens_conflict", "max_new_tokens", conflicting_tokens),
    ("open", 429, "order_limit", None, six_open),
    ("quotes", 429, "rate_limited", None, too_many_quotes),
    ("unforeseen", 500, "server_error", None, unforeseen),
    ("reader", 503, "batch_unavailable", None, dead_reader),
    ("hub", 503, "model_lookup_unavailable", None, hub_away),
]  # fmt: skip


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """The folder of the hub, and the commit of the small model."""
    folder = tmp_path_factory.mktemp("hub")
    with small_model_hub(folder) as commit:
        yield folder, commit


@pytest.fixture(scope="module")
def gateway(
    hub: tuple[Path, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LiveGateway]:
    folder = tmp_path_factory.mktemp("gateway")
    with live_gateway(folder, quotes_per_day=QUOTES_PER_DAY) as running:
        yield running


def assert_refused(answer: httpx.Response, status: int, code: str, param: str | None) -> None:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-request-id"].startswith("req_")
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert (error["code"], error["type"], error["param"]) == (code, error_type(status), param)
    assert error["message"]
    retried = status in (408, 409, 429) or status >= 500
    if code in FINAL_CODES:
        assert answer.headers["x-should-retry"] == "false"
        assert "retry-after" not in answer.headers
    elif code in ("file_not_ready", "order_refused", "rate_limited") or status == 503:
        assert retried and 1 <= int(answer.headers["retry-after"]) <= 60


@pytest.mark.parametrize(
    ("name", "status", "code", "param", "act"), REFUSALS, ids=[row[0] for row in REFUSALS]
)
def test_a_request_is_refused(
    gateway: LiveGateway,
    hub: tuple[Path, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    status: int,
    code: str,
    param: str | None,
    act: Act,
) -> None:
    place = RawCustomer(gateway, hub[0], tmp_path, name.replace(" ", "-"), monkeypatch)
    assert_refused(act(place), status, code, param)
    assert not [file for file in gateway.state.settings.incoming.iterdir() if file.is_file()]


def test_batches_are_switched_off(tmp_path: Path) -> None:
    with live_gateway(tmp_path / "off", batches_enabled=False) as off:
        for path in ("/files", f"/files/file-{NOBODY}", "/batches", f"/batches/batch_{NOBODY}"):
            answer = httpx.get(off.base_url + path, headers=off.auth)
            assert_refused(answer, 404, "not_available", None)


def test_a_size_without_a_price(
    hub: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prices = tmp_path / "prices.toml"
    prices.write_text(re.sub(r"max_parameters = .*", "max_parameters = 1", _first_size()))
    with live_gateway(tmp_path / "priceless", prices=prices) as gateway:
        place = RawCustomer(gateway, hub[0], tmp_path, "large", monkeypatch)
        assert_refused(place.create(), 409, "pricing_unavailable", None)


def _first_size() -> str:
    """Return the price file that comes with the gateway, with its first size alone."""
    head, first, *_ = SHIPPED.read_text().split("[[sizes]]")
    return f"{head}[[sizes]]{first}"


def test_no_node_has_announced_itself(
    hub: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with live_gateway(tmp_path / "alone", architectures=()) as gateway:
        place = RawCustomer(gateway, hub[0], tmp_path, "early", monkeypatch)
        assert_refused(place.create(), 503, "architecture_list_unavailable", None)


def test_every_code_of_the_contract_is_here() -> None:
    provoked = {row[2] for row in REFUSALS} | {
        "not_available", "architecture_list_unavailable", "pricing_unavailable",
    }  # fmt: skip
    assert provoked >= FURTHER
    documents = sorted(SEEDS.glob("000_*.txt"))
    if not documents:
        pytest.skip("the contract's documents are not here")
    text = documents[0].read_text()
    table = text[text.index("Main error codes") : text.index("\nLimits\n")]
    cells = re.findall(r"^\| (?:[0-9 /]+) \| ([a-z_, /]+) \|", table, re.MULTILINE)
    named = {code for cell in cells for code in re.split("[, /]+", cell)}
    assert len(named) > 30
    assert named <= provoked
