"""The whole journey of a native order: quoted, watched, delivered, fetched and verified."""

import json
from collections.abc import Iterator
from decimal import Decimal
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from batch_rows import request
from live_gateway import live_gateway
from native_customer import rows_of
from native_journey import Journey
from small_model import small_model_hub

from protocol.manifest import MANIFEST
from scripts.verify.discrepancy import Discrepancy
from scripts.verify.report import Assurance, summary

LINES = [
    *(request(f"q{at}", max_tokens=16, n=2) for at in range(5)),
    request("bad", max_tokens=16, n=2, stop="x"),
]


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    folder = tmp_path_factory.mktemp("hub")
    with small_model_hub(folder) as commit:
        yield commit, folder / "files"


@pytest.fixture(scope="module", params=["openai_jsonl", "parquet"])
def journey(
    request: pytest.FixtureRequest,
    hub: tuple[str, Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Journey]:
    # A gateway for each: a miner that is gone counts as live for two minutes.
    folder = tmp_path_factory.mktemp("journey")
    with live_gateway(folder / "gateway", unit_samples=4) as gateway:
        yield Journey(gateway, hub, folder, LINES, output_format=request.param)


def test_the_order_tells_what_it_came_to(journey: Journey) -> None:
    order, quote = journey.order, journey.quote
    assert (order["state"], order["status"]) == ("delivered", "completed")
    progress = order["progress"]
    assert (progress["samples_verified"], progress["samples_void"]) == (10, 1)
    assert progress["tokens_verified"] == 10 * len(journey.answer)
    price, charged, refunded = (
        Decimal(order[f"{name}_usd"]) for name in ("price", "charged", "refunded")
    )
    assert (price, charged + refunded) == (Decimal(quote["price_usd"]), price)
    assert 0 < refunded < price
    (delivery,) = order["deliveries"]
    assert (delivery["id"], delivery["format"]) == (
        f"dl-{order['id']}",
        journey.quote["output_format"],
    )
    kinds = [file["kind"] for file in delivery["files"]]
    assert kinds == ["output", "errors", "receipts", "report", "manifest"]
    balance = journey.customer.get("/balance")
    assert Decimal(balance["charged_usd"]) == charged
    assert Decimal(balance["reserved_usd"]) == 0


def test_the_delivery_verifies(journey: Journey) -> None:
    report = journey.verify()
    assert (report.samples, report.lines_completed, report.lines_short) == (10, 5, 0)
    assert report.refused == {"stop_unavailable": 1}
    assert report.money is not None
    assert report.money["charged_usd"] == journey.order["charged_usd"]
    assert report.money["reserved_usd"] == journey.quote["price_usd"]
    assert report.money["refunded_usd"] == journey.order["refunded_usd"]
    text = "\n".join(summary(report, Assurance(True, True, True, None)))
    assert f"{journey.order['charged_usd']} USD of" in text


def test_the_answers_say_what_was_generated(journey: Journey) -> None:
    if journey.quote["output_format"] == "parquet":
        rows = pq.read_table(journey.delivery / "part-00000.parquet").to_pylist()
        assert [row["text"] for row in rows] == ["hello world"] * 10
        return
    (content,) = journey.customer.files(journey.order, "output")
    assert content == (journey.delivery / "output-00000.jsonl").read_bytes()
    assert [row["custom_id"] for row in rows_of([content])] == [f"q{at}" for at in range(5)]


def test_lines_are_read_while_the_order_runs(journey: Journey) -> None:
    counts = [len(page["data"]) for page in journey.early]
    assert counts[0] == 0 and 0 < max(counts) < 5 and counts == sorted(counts)
    last = journey.early[-1]["data"]
    assert all(row["response"]["body"]["choices"] for row in last)
    whole = journey.lines()
    assert (len(whole["data"]), whole["has_more"]) == (5, False)
    if journey.quote["output_format"] == "openai_jsonl":
        delivered = rows_of([(journey.delivery / "output-00000.jsonl").read_bytes()])
        assert whole["data"] == delivered
    page, seen = journey.lines("?limit=2"), list[dict[str, Any]]()
    while True:
        seen += page["data"]
        if not page["has_more"]:
            break
        assert len(page["data"]) == 2
        page = journey.lines(f"?limit=2&after={page['next']}")
    assert seen == whole["data"]
    assert journey.lines(f"?after={page['next']}")["data"] == []
    url = f"/dataset-orders/{journey.order['id']}/lines"
    for query in ("after=x", "after=0", "after=0-7", "after=-1-0", "limit=0", "limit=101",
                  "after=999999-999999999999", "after=0-0&after=0-0"):  # fmt: skip
        answer = journey.customer.call("GET", f"{url}?{query}")
        if query == "after=999999-999999999999":
            # Behind the last line there is nothing, wherever its entry were.
            assert answer.json()["data"] == []
            continue
        assert answer.status_code == 400, query
        assert answer.json()["error"]["param"] in ("after", "limit")


def test_files_are_downloaded_in_parts(journey: Journey) -> None:
    (delivery,) = journey.order["deliveries"]
    for file in delivery["files"]:
        call = journey.customer.call
        whole = call("GET", file["url"])
        assert whole.status_code == 200
        assert sha256(whole.content).hexdigest() == file["sha256"]
        assert int(whole.headers["content-length"]) == file["bytes"] == len(whole.content)
        part = call("GET", file["url"], headers={"Range": "bytes=3-9"})
        assert (part.status_code, part.content) == (206, whole.content[3:10])
        assert part.headers["content-range"] == f"bytes 3-9/{file['bytes']}"
        resumed = {"Range": "bytes=3-9", "If-Range": whole.headers["etag"]}
        assert call("GET", file["url"], headers=resumed).status_code == 206
        changed = {"Range": "bytes=3-9", "If-Range": '"another"'}
        assert call("GET", file["url"], headers=changed).status_code == 200
        head = call("HEAD", file["url"])
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["content-length"] == str(file["bytes"])
        beyond = call("GET", file["url"], headers={"Range": "bytes=99999999-"})
        assert beyond.status_code == 416
    url = delivery["files"][0]["url"]
    stranger = {"Authorization": f"Bearer {journey.gateway.new_key('stranger')}"}
    assert httpx.get(journey.gateway.origin + url, headers=stranger).status_code == 404
    assert httpx.get(journey.gateway.origin + url).status_code == 401
    for bad in (url.replace("dl-", "dl-x"), url + "x", url.replace("00000", "00001")):
        assert journey.customer.call("GET", bad).status_code in (400, 404)
    manifest = journey.customer.get(f"/dataset-orders/{journey.order['id']}/manifest")
    assert manifest == json.loads((journey.delivery / MANIFEST).read_bytes())


def test_whatever_is_changed_is_found(journey: Journey, tmp_path: Path) -> None:
    """Though the gateway signs all of it."""
    parquet = journey.quote["output_format"] == "parquet"
    answers = "part-00000.parquet" if parquet else "output-00000.jsonl"
    report = json.loads((journey.delivery / "report.json").read_bytes())
    errors = (journey.delivery / "errors-00000.jsonl").read_bytes()
    receipts = (journey.delivery / "receipts-00000.jsonl").read_bytes().splitlines(True)

    def lied(**changes: Any) -> bytes:
        text = json.dumps(report | changes, indent=2, sort_keys=True)
        return text.encode() + b"\n"

    price = report["money"]["price"]
    cheaper = report["money"] | {"charged_usd": "0.01"}
    other = report["money"] | {"price": price | {"max_tokens": 17}}
    found: list[tuple[dict[str, bytes | None], str, str | None]] = [
        ({"report.json": lied(money=cheaper)}, "report.json", "money.charged_usd"),
        ({"report.json": lied(money=other)}, "report.json", "money.price.max_tokens"),
        ({"report.json": lied(counts={})}, "report.json", "counts.completion_tokens"),
        ({"report.json": lied(evaluation={})}, "report.json", "evaluation"),
        ({"report.json": lied(audit=report["audit"] | {"mismatches": 7})}, "report.json",
            "audit.mismatches"),
        ({"report.json": b"[]"}, "report.json", None),
        ({"errors-00000.jsonl": None}, "errors", None),
        ({"errors-00000.jsonl": errors * 2}, "errors-00000.jsonl", None),
        ({"errors-00001.jsonl": errors}, "errors-00001.jsonl", None),
        ({"receipts-00000.jsonl": b"".join(receipts[:-1])},
            "errors-00000.jsonl" if parquet else answers, None),
        ({answers: None}, MANIFEST, f"statement.files.{answers}"),
        ({"errors-00002.jsonl": b""}, MANIFEST, "statement.files.errors-00002.jsonl"),
        ({"grades-00000.jsonl": b""}, MANIFEST, "statement.files.grades-00000.jsonl"),
    ]  # fmt: skip
    if parquet:
        table = pq.read_table(journey.delivery / answers)
        texts = table.column("text").to_pylist()
        lie = pa.array(["bye", *texts[1:]], pa.large_string())
        spoiled = table.set_column(4, table.schema.field("text"), lie)
        pq.write_table(spoiled, tmp_path / "spoiled")
        pq.write_table(table.slice(0, 9), tmp_path / "short")
        pq.write_table(table.drop_columns(["miner"]), tmp_path / "narrow")
        found += [
            ({answers: (tmp_path / "spoiled").read_bytes()}, answers, "text"),
            ({answers: (tmp_path / "short").read_bytes()}, answers, None),
            ({answers: (tmp_path / "narrow").read_bytes()}, answers, None),
            ({answers: b"PAR1 no parquet PAR1"}, answers, None),
        ]
    for number, (changes, file, field) in enumerate(found):
        with pytest.raises(Discrepancy) as error:
            journey.verify(journey.changed(tmp_path / str(number), **changes))
        assert (error.value.file, error.value.field or None) == (file, field or error.value.field)
    # What was not signed for is found by its hash.
    for name in ("report.json", answers, "errors-00000.jsonl"):
        folder = journey.changed(tmp_path / f"unsigned-{name}")
        (folder / name).write_bytes((folder / name).read_bytes() + b"\n")
        with pytest.raises(Discrepancy) as error:
            journey.verify(folder)
        assert error.value.file == name


def test_grades_are_delivered_and_added_up_again(hub: tuple[str, Path], tmp_path: Path) -> None:
    references = ["hello world", "another", "hello world"]
    lines = [
        request(f"q{at}", max_tokens=16, n=2) | {"reference": reference}
        for at, reference in enumerate(references)
    ]
    asked = {"grader": "exact_match_v1", "output_format": "parquet"}
    with live_gateway(tmp_path / "gateway") as gateway:
        journey = Journey(gateway, hub, tmp_path, lines, **asked)
        evaluation = journey.order["evaluation"]
        assert (evaluation["status"], evaluation["samples"]["correct"]) == ("graded", 4)
        journey.verify()
        table = pq.read_table(journey.delivery / "part-00000.parquet")
        assert table.column("grade").to_pylist() == [True, True, False, False, True, True]
        assert table.column("reference").to_pylist()[::2] == references
        report = json.loads((journey.delivery / "report.json").read_bytes())
        assert report["evaluation"] == evaluation
        grades = (journey.delivery / "grades-00000.jsonl").read_bytes()
        rows = grades.splitlines(True)
        flipped = grades.replace(b"false", b"true")
        whole = flipped.replace(b'"pass_at_1":0.0', b'"pass_at_1":1.0')
        for number, (changed, file) in enumerate((
            (flipped, "grades-00000.jsonl"),
            (whole, "part-00000.parquet"),
            (b"".join(rows[:2]), "grades-00000.jsonl"),
            (b"".join([rows[1], rows[0], rows[2]]), "grades-00000.jsonl"),
            (rows[0] + b"[]\n" + rows[2], "grades-00000.jsonl"),
            (grades + rows[0], "grades-00000.jsonl"),
        )):  # fmt: skip
            folder = tmp_path / f"changed-{number}"
            with pytest.raises(Discrepancy) as error:
                journey.verify(journey.changed(folder, **{"grades-00000.jsonl": changed}))
            assert error.value.file == file
        lied = report | {"evaluation": evaluation | {"pass_at_1": 1.0}}
        text = json.dumps(lied, indent=2, sort_keys=True).encode() + b"\n"
        with pytest.raises(Discrepancy) as error:
            journey.verify(journey.changed(tmp_path / "lied", **{"report.json": text}))
        assert error.value.field == "evaluation.pass_at_1"
