"""``reliquary fetch``: a live gateway's delivery as a folder that verifies."""

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import openai
import pytest
from ended_batch import ENDED
from fake_nodes import fake_nodes
from live_gateway import LiveGateway, live_gateway
from small_model import MODEL, small_model_hub
from tokenizers import Tokenizer

from protocol.manifest import FILES, MANIFEST, OUTPUT, RECEIPTS, REPORT
from protocol.messages import LoadedModel
from scripts.cli import main
from scripts.fetch import FetchError, fetch
from scripts.verify.check import verify

CHAT = "/v1/chat/completions"


def line(number: int) -> dict:
    message = {"role": "user", "content": f"hello {number}"}
    body = {"model": MODEL, "messages": [message], "max_tokens": 16, "n": 2}
    return {"custom_id": f"q{number}", "method": "POST", "url": CHAT, "body": body}


@dataclass
class Ordered:
    """A gateway with one ended batch over a file."""

    gateway: LiveGateway
    input: Path
    batch_id: str
    validator: str

    def fetch(self, out: Path, **changes: str) -> None:
        given = {"base_url": self.gateway.base_url, "api_key": self.gateway.key} | changes
        fetch(given["base_url"], given["api_key"], given.get("batch_id", self.batch_id), out)


@pytest.fixture(scope="module")
def ordered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ordered]:
    folder = tmp_path_factory.mktemp("fetch")
    path = folder / "in.jsonl"
    rows = [json.dumps(line(number)) for number in range(5)]
    path.write_text("\n".join([*rows[:2], "no json", *rows[2:], ""]))
    with (
        small_model_hub(folder) as commit,
        live_gateway(folder / "gateway", unit_samples=4, second_opinions=0.0) as gateway,
    ):
        tokenizer = Tokenizer.from_file(str(folder / "files" / "tokenizer.json"))
        answer = [*tokenizer.encode("hello world").ids, tokenizer.token_to_id("<|im_end|>")]
        client = gateway.client()
        file = client.files.create(file=path, purpose="batch")
        batch = client.batches.create(input_file_id=file.id, endpoint=CHAT, completion_window="24h")
        loaded = LoadedModel(model=MODEL, revision=commit)
        with fake_nodes(gateway, folder, loaded, answer) as nodes:
            wait(client, batch.id)
        yield Ordered(gateway, path, batch.id, nodes.validator.ss58_address)


def wait(client: openai.OpenAI, batch_id: str) -> None:
    deadline = time.monotonic() + 60
    while client.batches.retrieve(batch_id).status not in ENDED:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_fetched_delivery_verifies(ordered: Ordered, tmp_path: Path):
    ordered.fetch(tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(
        [MANIFEST, *FILES, REPORT]
    )
    report = verify(
        tmp_path / "out",
        ordered.input,
        gateway=ordered.gateway.state.keypair.ss58_address,
        validators=frozenset({ordered.validator}),
    )
    assert (report.samples, report.lines_completed, report.same_input) == (10, 5, True)
    assert report.refused == {"invalid_json": 1}
    assert report.statement.seed_drawn


def test_both_dialects_and_the_bare_origin_lead_there(ordered: Ordered, tmp_path: Path):
    for place, url in enumerate((ordered.gateway.openrelay_url, ordered.gateway.origin + "/")):
        ordered.fetch(tmp_path / str(place), base_url=url)
        assert (tmp_path / str(place) / MANIFEST).exists()


def test_the_command_finds_the_gateway_by_a_file(
    ordered: Ordered, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """As ``reliquary batch`` does."""
    monkeypatch.chdir(tmp_path)
    for name in ("RELIQUARY_BASE_URL", "RELIQUARY_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    command = ["reliquary", "fetch", ordered.batch_id, "--out", "out"]
    monkeypatch.setattr(sys, "argv", command)
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 1
    (tmp_path / "reliquary.env").write_text(
        f"RELIQUARY_BASE_URL={ordered.gateway.base_url}\nRELIQUARY_API_KEY={ordered.gateway.key}\n"
    )
    with pytest.raises(SystemExit) as left:
        main()
    assert not left.value.code
    assert (tmp_path / "out" / MANIFEST).exists()


def test_what_is_there_is_kept_and_what_is_broken_is_fetched_again(
    ordered: Ordered, tmp_path: Path
):
    ordered.fetch(tmp_path)
    kept = (tmp_path / OUTPUT).stat().st_ino
    good = (tmp_path / RECEIPTS).read_bytes()
    (tmp_path / RECEIPTS).write_bytes(b"x" * len(good))
    ordered.fetch(tmp_path)
    assert (tmp_path / OUTPUT).stat().st_ino == kept
    assert (tmp_path / RECEIPTS).read_bytes() == good


def test_refusals_say_what_to_do(ordered: Ordered, tmp_path: Path):
    unknown = "batch_01a22870-0000-7000-8000-000000000000"
    stranger = ordered.gateway.new_key("stranger")
    for changes, said in (
        ({"api_key": "wrong"}, "RELIQUARY_API_KEY"),
        ({"api_key": stranger}, "no such batch"),
        ({"batch_id": unknown}, "no such batch"),
        ({"batch_id": "batch_../../x"}, "no batch id"),
        ({"base_url": "gateway:80"}, "no base URL"),
    ):
        with pytest.raises(FetchError, match=said):
            ordered.fetch(tmp_path / "out", **changes)
    assert not (tmp_path / "out").exists()


def test_a_batch_that_runs_has_no_delivery_yet(ordered: Ordered, tmp_path: Path):
    client = ordered.gateway.client()
    file = client.files.create(file=ordered.input, purpose="batch")
    batch = client.batches.create(input_file_id=file.id, endpoint=CHAT, completion_window="24h")
    with pytest.raises(FetchError, match="is validating"):
        ordered.fetch(tmp_path, batch_id=batch.id)
    url = f"{ordered.gateway.origin}/api/v1/dataset-orders/{batch.id.removeprefix('batch_')}"
    assert httpx.get(f"{url}/manifest", headers=ordered.gateway.auth).status_code == 404
    client.batches.cancel(batch.id)
    wait(client, batch.id)
    ordered.fetch(tmp_path / "out", batch_id=batch.id)
    report = verify(tmp_path / "out", ordered.input)
    assert (report.statement.status, report.samples, report.lines_short) == ("cancelled", 0, 5)
