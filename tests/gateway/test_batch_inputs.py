"""Inputs that broke other batch systems, through a live gateway and the official client.

The row of the table that each test stands for is in its id. One gateway serves all of them, with
nodes that fake the model alone.
"""

import hashlib
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from batch_rows import (
    CASES,
    CHAT,
    EMOJI,
    REFUSED_FILES,
    SHAPELESS,
    Case,
    encoded,
    good,
    request,
)
from ended_batch import check_ended, wait
from fake_nodes import VOID, FakeNodes, all_verified, fake_nodes
from live_gateway import LiveGateway, live_gateway
from openai.types import Batch
from small_model import MODEL, small_model_hub
from tokenizers import Tokenizer

from gateway.orders.policy import MAX_AUDITS
from protocol.messages import AuditLease, LoadedModel, SampleVerdict

Judge = Callable[[AuditLease], list[SampleVerdict]]


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LoadedModel, Tokenizer]]:
    folder = tmp_path_factory.mktemp("hub")
    with small_model_hub(folder) as commit:
        tokenizer = Tokenizer.from_file(str(folder / "files" / "tokenizer.json"))
        yield LoadedModel(model=MODEL, revision=commit), tokenizer


@pytest.fixture(scope="module")
def gateway(
    hub: tuple[LoadedModel, Tokenizer], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LiveGateway]:
    folder = tmp_path_factory.mktemp("gateway")
    many = {"open_orders": 1_000, "quotes_per_day": 10_000, "cancel_grace_seconds": 0.5}
    with live_gateway(folder, unit_samples=64, **many) as running:
        yield running


@pytest.fixture(scope="module")
def running_nodes(
    gateway: LiveGateway,
    hub: tuple[LoadedModel, Tokenizer],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[FakeNodes]:
    with fake_nodes(gateway, tmp_path_factory.mktemp("nodes"), hub[0], answer(hub)) as made:
        yield made


@pytest.fixture
def nodes(running_nodes: FakeNodes, hub: tuple[LoadedModel, Tokenizer]) -> FakeNodes:
    """The nodes, which answer and judge as they always do until a test tells them otherwise."""
    running_nodes.answer, running_nodes.judge = answer(hub), all_verified
    running_nodes.works.clear()
    return running_nodes


def answer(hub: tuple[LoadedModel, Tokenizer], text: str = "hello world") -> list[int]:
    """The ids of a text and the end id."""
    return [*hub[1].encode(text).ids, hub[1].token_to_id("<|im_end|>")]


def prompts(nodes: FakeNodes, hub: tuple[LoadedModel, Tokenizer]) -> str:
    """All texts that the miner was given."""
    given = (ids for work in nodes.works for ids in work.prompts)
    return "\n".join(hub[1].decode(ids, skip_special_tokens=False) for ids in given)


def order(
    client: openai.OpenAI,
    content: bytes,
    endpoint: Any = CHAT,
    metadata: dict[str, str] | None = None,
) -> Batch:
    """Upload a file, which must come back as it was, and create a batch on it."""
    file = client.files.create(file=("in.jsonl", content), purpose="batch")
    assert client.files.content(file.id).content == content
    return client.batches.create(
        input_file_id=file.id, endpoint=endpoint, completion_window="24h", metadata=metadata
    )


def lines(count: int, **body: Any) -> bytes:
    return b"".join(encoded(request(f"q{at}", **body)) + b"\n" for at in range(1, count + 1))


def refusals(errors: list[dict[str, Any]]) -> dict[int, str]:
    return {row["line"]: row["error"]["code"] for row in errors}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_file_runs(
    case: Case, gateway: LiveGateway, nodes: FakeNodes, hub: tuple[LoadedModel, Tokenizer]
) -> None:
    client = gateway.client()
    if case.name == "B05":
        nodes.answer = answer(hub, "a\u2028b\u0085c")
    ended = wait(client, order(client, case.file, case.endpoint).id)
    assert ended.status == "completed"
    output, errors = check_ended(client, ended, case.custom_ids)
    refused = {at: row.code for at, row in enumerate(case.rows, 1) if row.code is not None}
    assert refusals(errors) == refused
    assert [row["custom_id"] for row in errors] == [
        case.rows[line - 1].custom_id for line in refused
    ]
    assert all(0 < len(row["error"]["message"]) < 500 for row in errors)
    assert [row["custom_id"] for row in output] == [
        row.custom_id for row in case.rows if row.code is None
    ]
    field = "message" if case.endpoint == CHAT else "text"
    shown = [row["response"]["body"]["choices"][0][field] for row in output]
    texts = {one["content"] if case.endpoint == CHAT else one for one in shown}
    assert texts == {"a\u2028b\u0085c" if case.name == "B05" else "hello world"}
    for row, text in (("B03", EMOJI), ("B07", "a\0b"), ("B47", "BANANA"), ("B49", "JOINED")):
        assert (case.name == row) <= (text in prompts(nodes, hub))


@pytest.mark.parametrize(
    ("content", "status", "code", "said"),
    [row[1:] for row in REFUSED_FILES],
    ids=[row[0] for row in REFUSED_FILES],
)
def test_a_file_is_refused(
    gateway: LiveGateway, content: bytes, status: int, code: str, said: str
) -> None:
    client = gateway.client()
    with pytest.raises(openai.APIStatusError) as refused:
        order(client, content)
    assert (refused.value.status_code, refused.value.code) == (status, code)
    assert said in refused.value.message


@pytest.mark.parametrize(
    ("content", "said"), [row[1:] for row in SHAPELESS], ids=[row[0] for row in SHAPELESS]
)
def test_a_file_of_another_shape_is_told_so(
    gateway: LiveGateway, content: bytes, said: str
) -> None:
    with pytest.raises(openai.UnprocessableEntityError) as refused:
        order(gateway.client(), content, metadata={"model": MODEL})
    assert refused.value.code == "invalid_batch_file"
    assert "no_usable_line" in refused.value.message
    assert said in refused.value.message


@pytest.mark.slow
def test_b17_as_many_lines_as_there_may_be(gateway: LiveGateway, nodes: FakeNodes) -> None:
    client = gateway.client()
    content = b"\n" + good(1).data + b"\n" + b"5\n" * 49_999 + b" \n" * 9
    ended = wait(client, order(client, content).id)
    assert ended.status == "completed"
    output, errors = check_ended(client, ended, ["q1"] + [""] * 49_999)
    assert [row["custom_id"] for row in output] == ["q1"]
    assert [row["line"] for row in errors] == list(range(3, 50_002))


def test_b21_iteration(gateway: LiveGateway, nodes: FakeNodes) -> None:
    client = gateway.client(gateway.new_key("pages"))
    made = [order(client, good(1).data).id for _ in range(6)]
    newest_first = made[::-1]
    for limit in (1, 2, 3, 6, 100):
        assert [batch.id for batch in client.batches.list(limit=limit)] == newest_first
        page = client.batches.list(limit=limit)
        shown = page.to_dict()
        assert shown["first_id"] == newest_first[0]
        assert shown["last_id"] == newest_first[min(limit, 6) - 1]
        assert shown["has_more"] == (limit < 6)
    seen: list[str] = []
    for batch in client.batches.list(limit=3):
        if len(seen) == 2:
            order(client, good(1).data)
        seen.append(batch.id)
    assert seen == newest_first


def test_b25_a_download_is_resumed(gateway: LiveGateway, nodes: FakeNodes) -> None:
    client = gateway.client()
    ended = wait(client, order(client, lines(16, n=64)).id)
    url = f"{gateway.base_url}/files/{ended.output_file_id}/content"
    whole = client.files.content(ended.output_file_id or "").content
    size = len(whole)
    assert size > 80_000
    cut = size * 6 // 10
    with httpx.stream("GET", url, headers=gateway.auth) as answer:
        assert answer.headers["content-length"] == str(size)
        etag = answer.headers["etag"]
        first = b""
        for piece in answer.iter_raw(4_096):
            first += piece
            if len(first) >= cut:
                break
    resume = {"Range": f"bytes={len(first)}-", "If-Range": etag}
    rest = httpx.get(url, headers=gateway.auth | resume)
    assert rest.status_code == 206
    assert first + rest.content == whole
    assert whole.endswith(b"\n")


def test_b27_batches_of_others(gateway: LiveGateway, nodes: FakeNodes) -> None:
    mine, other = gateway.client(), gateway.client(gateway.new_key("other"))
    batch = wait(mine, order(mine, good(1).data + b"\n{}").id)
    unknown = "00000000-0000-4000-8000-000000000000"
    asked: list[tuple[Callable[[str], Any], str | None, str]] = [
        (other.batches.retrieve, batch.id, "batch_" + unknown),
        (other.batches.cancel, batch.id, "batch_" + unknown),
        *(
            (act, file_id, "file-" + unknown)
            for act in (other.files.retrieve, other.files.content)
            for file_id in (batch.input_file_id, batch.output_file_id, batch.error_file_id)
        ),
        (_create_on(other), batch.input_file_id, "file-" + unknown),
    ]
    for act, foreign, nobody in asked:
        assert foreign is not None
        with pytest.raises(openai.NotFoundError) as of_other:
            act(foreign)
        with pytest.raises(openai.NotFoundError) as of_nobody:
            act(nobody)
        assert of_other.value.body == of_nobody.value.body
    assert [list(other.files.list()), list(other.batches.list())] == [[], []]
    with pytest.raises(openai.BadRequestError):
        other.batches.list(after=batch.id)


def _create_on(client: openai.OpenAI) -> Callable[[str], Batch]:
    return lambda file_id: client.batches.create(
        input_file_id=file_id, endpoint=CHAT, completion_window="24h"
    )


def test_b53_input_order(gateway: LiveGateway, nodes: FakeNodes) -> None:
    client = gateway.client()
    nodes.judge = judging(lambda place, times: VOID if place % 10 == 0 and times == 1 else {})
    ended = wait(client, order(client, lines(200)).id)
    output, errors = check_ended(client, ended, [f"q{at}" for at in range(1, 201)])
    assert (len(output), errors) == (200, [])
    hashes = {
        hashlib.sha256(client.files.content(ended.output_file_id or "").content).hexdigest()
        for _ in range(3)
    }
    assert len(hashes) == 1
    assert sum(len(work.samples) for work in nodes.works) == 220


def judging(outcome: Callable[[int, int], dict[str, object]]) -> Judge:
    """A judge that changes verdicts by a sample's place in the order and how often it came."""
    judged: Counter[tuple[int, ...]] = Counter()
    places: dict[tuple[int, ...], int] = {}

    def judge(lease: AuditLease) -> list[SampleVerdict]:
        verdicts = all_verified(lease)
        for at, sample in enumerate(lease.work.samples):
            prompt = tuple(lease.work.prompts[sample.prompt])
            judged[prompt] += 1
            change = outcome(places.setdefault(prompt, len(places)), judged[prompt])
            verdicts[at] = verdicts[at].model_copy(update=change)
        return verdicts

    return judge


def test_b55_no_error_file_of_a_clean_batch(gateway: LiveGateway, nodes: FakeNodes) -> None:
    client = gateway.client()
    ended = wait(client, order(client, lines(2)).id)
    assert ended.to_dict()["error_file_id"] is None
    answer = httpx.get(f"{gateway.base_url}/files//content", headers=gateway.auth)
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")


def test_b57_counts(gateway: LiveGateway, nodes: FakeNodes) -> None:
    client = gateway.client()
    audits: list[int] = []

    def five_undecided(place: int, times: int) -> dict[str, object]:
        audits.append(times)
        return {"outcome": "inconclusive"} if place < 5 else {}

    nodes.judge = judging(five_undecided)
    content = lines(90) + b"".join(
        encoded(request(f"bad{at}", stop="x")) + b"\n" for at in range(10)
    )
    ended = wait(client, order(client, content).id)
    assert ended.status == "completed"
    custom_ids = [*(f"q{at}" for at in range(1, 91)), *(f"bad{at}" for at in range(10))]
    output, errors = check_ended(client, ended, custom_ids)
    assert (len(output), len(errors)) == (85, 15)
    assert ended.request_counts is not None
    assert ended.request_counts.to_dict() == {"total": 100, "completed": 85, "failed": 15}
    assert max(audits) == MAX_AUDITS


def test_b59_cancel(gateway: LiveGateway, nodes: FakeNodes) -> None:
    client = gateway.client()
    judged: list[str] = []
    cancelled = threading.Event()

    def slowly(lease: AuditLease) -> list[SampleVerdict]:
        cancelled.wait(60 if len(judged) >= 2 else 0)
        judged.append(lease.lease_id)
        return all_verified(lease)

    nodes.judge = slowly
    batch = order(client, lines(300))
    wait(client, batch.id, lambda one: bool(one.request_counts and one.request_counts.completed))
    assert client.batches.cancel(batch.id).status == "cancelling"
    cancelled.set()
    ended = wait(client, batch.id)
    assert ended.status == "cancelled"
    output, errors = check_ended(client, ended, [f"q{at}" for at in range(1, 301)])
    assert 0 < len(output) < 300
    assert {row["error"]["code"] for row in errors} == {"missing_samples"}
    with pytest.raises(openai.ConflictError):
        client.batches.cancel(batch.id)


@pytest.mark.slow
def test_b61_restarts(hub: tuple[LoadedModel, Tokenizer], tmp_path: Path) -> None:
    data = tmp_path / "gateway"
    with live_gateway(data, unit_samples=8) as first:
        key = first.key
        batch = order(first.client(), lines(40) + b"5\n")
        assert first.client().batches.retrieve(batch.id).status == "validating"
    with (
        live_gateway(data, unit_samples=8) as second,
        fake_nodes(second, tmp_path, hub[0], answer(hub)) as made,
    ):
        judged: list[str] = []
        made.judge = lambda lease: _stalling(lease, judged, made)
        client = second.client(key)
        partly = wait(client, batch.id, lambda one: bool(_completed(one)))
        assert partly.status == "in_progress"
    with live_gateway(data, unit_samples=8) as third:
        with fake_nodes(third, tmp_path, hub[0], answer(hub)):
            client = third.client(key)
            assert _completed(client.batches.retrieve(batch.id)) >= _completed(partly)
            ended = wait(client, batch.id)
        assert ended.status == "completed"
        output, errors = check_ended(client, ended, [*(f"q{at}" for at in range(1, 41)), ""])
        assert (len(output), refusals(errors)) == (40, {41: "invalid_line"})


def _completed(batch: Batch) -> int:
    return batch.request_counts.completed if batch.request_counts is not None else 0


def _stalling(lease: AuditLease, judged: list[str], nodes: FakeNodes) -> list[SampleVerdict]:
    """Verify the first two results, and the next once the nodes are stopped."""
    nodes.stop.wait(60 if len(judged) >= 2 else 0)
    judged.append(lease.lease_id)
    return all_verified(lease)
