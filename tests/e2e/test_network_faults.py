"""What happens to a network in use: nothing is lost, nothing is doubled, nothing moves."""

from pathlib import Path

import pytest
from customer import MODEL, Customer, chat_line, tale_lines
from ended_batch import check_ended

from scripts.hub import publish
from scripts.tiny_model import WEIGHTS

pytestmark = pytest.mark.e2e


def _started(customer: Customer, count: int, **body: object):
    lines = tale_lines(count, **body)
    batch = customer.order(lines)
    return lines, customer.wait(batch, lambda b: b.request_counts.completed >= 2)


def test_a_killed_miners_unit_is_finished_by_another(customer: Customer) -> None:
    lines, batch = _started(customer, 40, max_tokens=128)
    customer.network.kill("miner-1")
    batch = customer.wait(batch)
    customer.network.restart("miner-1")
    assert batch.status == "completed"
    output, errors = check_ended(customer.client, batch, [row["custom_id"] for row in lines])
    assert len(output) == 40
    assert errors == []


def test_a_killed_gateway_goes_on_where_it_was(customer: Customer) -> None:
    lines, batch = _started(customer, 40, max_tokens=128)
    customer.network.kill("gateway")
    customer.network.restart("gateway")
    batch = customer.wait(batch)
    assert batch.status == "completed"
    output, errors = check_ended(customer.client, batch, [row["custom_id"] for row in lines])
    assert len(output) == 40
    assert errors == []
    receipts = customer.native(batch, "/receipts")
    places = [(receipt["prompt_index"], receipt["choice"]) for receipt in receipts]
    assert sorted(set(places)) == sorted(places)
    assert len(places) == 40


def test_two_runs_in_float32_are_byte_identical(customer: Customer) -> None:
    lines = tale_lines(12, max_tokens=64, n=2)
    texts = []
    for _ in range(2):
        batch = customer.wait(customer.order(lines))
        output, _ = check_ended(customer.client, batch, [row["custom_id"] for row in lines])
        for row in output:
            row["id"] = row["response"]["request_id"] = ""
            row["response"]["body"]["id"] = row["response"]["body"]["created"] = ""
        texts.append(output)
    assert texts[0] == texts[1]


def test_the_output_comes_from_the_pinned_commit(customer: Customer, tmp_path: Path) -> None:
    pinned = customer.network.revision
    batch = customer.order(tale_lines(6, max_tokens=48))
    # A later commit: other files, so another name of main.
    changed = tmp_path / "changed"
    changed.mkdir()
    for file in WEIGHTS.iterdir():
        (changed / file.name).write_bytes(file.read_bytes())
    (changed / "README.md").write_text("a later commit")
    moved = publish(customer.network.layout.hub, MODEL, changed)
    assert moved != pinned
    later = customer.order([chat_line("after", "Name the capital of France in one word.")])
    assert customer.wait(batch).status == "completed"
    assert customer.native(batch)["revision"] == pinned
    assert {
        row["lease"]["statement"]["revision"] for row in customer.native(batch, "/receipts")
    } == {pinned}
    assert customer.wait(later).status == "completed"
    assert customer.native(later)["revision"] == moved
