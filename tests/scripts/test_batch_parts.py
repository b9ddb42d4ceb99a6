"""The parts of ``reliquary batch``: lines to retry, uploads in parts, patience."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from live_gateway import LiveGateway, live_gateway

from scripts.batch import run as running
from scripts.batch import upload
from scripts.batch.gateway import BatchError, Gateway, Unanswered
from scripts.batch.lines import first_model
from scripts.batch.retrying import lines_to_retry

MIB = 1024 * 1024


def short(custom_id: str, index: int) -> dict[str, Any]:
    error = {"code": "missing_samples", "message": "0 of 2 samples delivered"}
    return {"custom_id": custom_id, "prompt_index": index, "error": error}


def refused(custom_id: str, number: int) -> dict[str, Any]:
    return {"custom_id": custom_id, "line": number, "error": {"code": "x", "message": "y"}}


def test_short_lines_are_ordered_again_byte_for_byte(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_bytes(
        b"\xef\xbb\xbf"
        b'{"custom_id": "a",  "body": 1}\r\n'
        b"\n"
        b'{"custom_id":"b"}\n'
        b'{"custom_id":"a","again":true}\n'
        b"garbage\n"
        b'{"custom_id":"\\u0063"}'
    )
    errors = [refused("a", 4), refused("", 5), short("a", 0), short("c", 2)]
    found = lines_to_retry(path, errors)
    assert found.lines == [b'{"custom_id": "a",  "body": 1}\n', b'{"custom_id":"\\u0063"}\n']
    assert found.refused == errors[:2]
    # A refused line of the same id comes first, too.
    assert lines_to_retry(path, [refused("a", 1), short("a", 1)]).lines == [
        b'{"custom_id":"a","again":true}\n'
    ]
    with pytest.raises(BatchError, match="give the file you ordered"):
        lines_to_retry(path, [short("z", 0)])
    assert lines_to_retry(path, []).lines == []


def test_the_model_of_the_first_line_that_is_an_object(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text('[1]\n\n{"body": {"model": "org/name"}}\n{"body": {"model": "org/other"}}\n')
    assert first_model(path) == "org/name"
    path.write_text('{"body": {}}\n{"body": {"model": "org/other"}}\n')
    assert first_model(path) is None


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveGateway]:
    with live_gateway(tmp_path_factory.mktemp("gateway")) as running:
        yield running


def test_a_large_file_goes_in_parts_and_on_where_it_stopped(
    gateway: LiveGateway, tmp_path: Path
) -> None:
    path = tmp_path / "large (1)é.jsonl"
    path.write_bytes(b"x" * (17 * MIB))
    sent: list[str] = []

    class Counting(Gateway):
        def call(self, method: str, path: str, **options: Any) -> dict[str, Any]:
            if len(sent) == stop_after:
                raise Unanswered("gone")
            if method == "PUT":
                sent.append(path.rpartition("/")[2])
            return super().call(method, path, **options)

    stop_after = 2
    with Counting(gateway.base_url, gateway.key) as client:
        file_id = upload.begin(client, path)
        with pytest.raises(Unanswered):
            upload.send(client, file_id, path, lambda done, total: None)
        stop_after = 100
        seen: list[tuple[int, int]] = []
        upload.send(client, file_id, path, lambda *place: seen.append(place))
        # A repeat sends nothing.
        upload.send(client, file_id, path, lambda done, total: None)
        shown = client.get(f"/files/{file_id}")
    assert sent == ["1", "2", "3"]
    assert seen[-1] == (17 * MIB, 17 * MIB)
    assert (shown["status"], shown["sha256"]) == ("processed", upload.hash_of(path))
    assert shown["filename"] == "large (1)_.jsonl"


def test_files_that_are_too_large_are_not_sent(tmp_path: Path) -> None:
    path = tmp_path / "sparse.jsonl"
    with path.open("wb") as file:
        file.truncate(upload.MAX_BYTES + 1)
    with pytest.raises(BatchError, match="at most 209,715,200"):
        upload.hash_of(path)


class Script:
    """A gateway of which only the answers to polls are made up, and a screen that notes."""

    def __init__(self, *answers: str | None) -> None:
        self.answers = list(answers)
        self.now = 0.0
        self.waited: list[str] = []

    def get(self, path: str) -> dict[str, Any]:
        state = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if state is None:
            raise Unanswered("no route to host")
        return {"id": "x", "state": state}

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def progressed(self, order: dict[str, Any]) -> None:
        self.waited.append(order["state"])

    def waits(self, reason: str) -> None:
        self.waited.append(reason)


def waited(script: Script) -> dict[str, Any]:
    order = {"id": "x", "state": "queued"}
    return running._wait(script, order, script, script.sleep, lambda: script.now)  # pyright: ignore


def test_a_gateway_that_is_away_for_a_while_ends_no_run() -> None:
    script = Script("running", None, None, "running", "delivered")
    assert waited(script)["state"] == "delivered"
    away = "no route to host"
    assert script.waited == [
        "queued", "running", away, "running", away, "running", "running", "delivered",
    ]  # fmt: skip


def test_patience_has_an_end() -> None:
    script = Script("running", None)
    with pytest.raises(Unanswered):
        waited(script)
    assert script.now >= running.PATIENCE_SECONDS


def test_the_record_of_a_run_is_json_that_a_person_can_read(tmp_path: Path) -> None:
    from scripts.batch.record import NAME, RunRecord

    record = RunRecord(
        origin="http://gateway",
        file_sha256="ab" * 32,
        model="org/name",
        revision="cd" * 20,
        output_format="parquet",
        grader=None,
        completion_window="24h",
    )
    record.write(tmp_path)
    assert RunRecord.read(tmp_path) == record
    assert json.loads((tmp_path / NAME).read_text())["model"] == "org/name"
    (tmp_path / NAME).write_text("{")
    with pytest.raises(BatchError, match="choose another --out"):
        RunRecord.read(tmp_path)
