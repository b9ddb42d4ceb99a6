"""``/api/v1/files`` over HTTP: uploads in parts, and how they show in the other dialects."""

import json
import re
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import httpx
import openai
import pytest
from live_gateway import LiveGateway, live_gateway

from gateway.uploads import MAX_UPLOAD_BYTES, PART_BYTES

CONTENT = b'{"custom_id": "q"}\n' * (PART_BYTES // 19 + 5)
# How the framework speaks of a value, which is for programmers.
FRAMEWORK_WORDS = re.compile(r"Input should|String should|Value error|Extra inputs|Field required")
NOBODY = "file-01a22870-0000-7000-8000-000000000000"


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveGateway]:
    with live_gateway(tmp_path_factory.mktemp("gateway"), uploads_at_once=3) as running:
        yield running


class Uploader:
    """An account of its own that speaks to ``/api/v1/files``."""

    def __init__(self, gateway: LiveGateway, name: str) -> None:
        self.url = f"{gateway.origin}/api/v1/files"
        self.key = gateway.new_key(name)
        self.auth = {"Authorization": f"Bearer {self.key}"}

    def call(self, method: str, path: str = "", **options: Any) -> httpx.Response:
        headers = self.auth | options.pop("headers", {})
        return httpx.request(method, self.url + path, headers=headers, timeout=60, **options)

    def begin(self, size: int = len(CONTENT), **changes: Any) -> httpx.Response:
        body = {"filename": "in.jsonl", "bytes": size, "purpose": "batch"} | changes
        return self.call("POST", json=body)

    def part(self, file_id: str, number: int, content: bytes, **headers: str) -> httpx.Response:
        return self.call("PUT", f"/{file_id}/parts/{number}", content=content, headers=headers)


def refused(answer: httpx.Response, status: int, code: str, param: str | None) -> None:
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert (error["code"], error["param"]) == (code, param)
    assert error["message"] and not FRAMEWORK_WORDS.search(error["message"])


def test_a_file_in_two_parts(gateway: LiveGateway) -> None:
    mine = Uploader(gateway, "two-parts")
    begun = mine.begin()
    assert begun.status_code == 200, begun.text
    file = begun.json()
    file_id = file["id"]
    assert (file["status"], file["sha256"]) == ("uploading", None)
    assert file["upload"]["part_size"] == PART_BYTES
    assert (file["upload"]["parts"], file["upload"]["received"]) == (2, [])
    assert file["upload"]["expires_at"] == file["created_at"] + 86_400
    parts = [CONTENT[:PART_BYTES], CONTENT[PART_BYTES:]]
    for number in (2, 1):
        digest = sha256(parts[number - 1]).hexdigest()
        sent = mine.part(file_id, number, parts[number - 1], **{"X-Part-Sha256": digest.upper()})
        assert sent.status_code == 200, sent.text
        assert sent.json() == {
            "object": "file.part",
            "file_id": file_id,
            "part_number": number,
            "bytes": len(parts[number - 1]),
            "sha256": digest,
        }
        received = mine.call("GET", f"/{file_id}").json()["upload"]["received"]
        assert received == [2, 1][: 3 - number][::-1]
    whole = mine.call("POST", f"/{file_id}/complete").json()
    assert (whole["status"], whole["upload"]) == ("processed", None)
    assert whole["sha256"] == sha256(CONTENT).hexdigest()
    assert mine.call("POST", f"/{file_id}/complete").json() == whole
    assert mine.call("GET", f"/{file_id}").json() == whole
    client = gateway.client(mine.key)
    assert client.files.content(file_id).content == CONTENT
    assert client.files.retrieve(file_id).to_dict()["sha256"] == whole["sha256"]
    refused(mine.part(file_id, 1, parts[0]), 409, "upload_completed", None)
    stranger = Uploader(gateway, "stranger")
    for method, path in (("GET", ""), ("POST", "/complete"), ("PUT", "/parts/1"), ("DELETE", "")):
        refused(stranger.call(method, f"/{file_id}{path}"), 404, "file_not_found", None)


def test_an_upload_in_progress_in_the_other_dialects(gateway: LiveGateway) -> None:
    mine = Uploader(gateway, "in-progress")
    file_id = mine.begin().json()["id"]
    for client in (gateway.client(mine.key), gateway.openrelay(mine.key)):
        (listed,) = client.files.list()
        assert listed == client.files.retrieve(file_id)
        shown = listed.to_dict()
        assert (shown["status"], shown["bytes"]) == ("uploading", len(CONTENT))
        assert shown["upload"] == {"part_size": PART_BYTES, "parts": 2}
        assert "sha256" not in shown
        with pytest.raises(openai.ConflictError) as error:
            client.files.content(file_id)
        assert error.value.code == "file_not_ready"
        assert 1 <= int(error.value.response.headers["retry-after"]) <= 60
        with pytest.raises(openai.ConflictError) as error:
            client.batches.create(
                input_file_id=file_id,
                endpoint="/v1/chat/completions",
                completion_window="24h",
            )
        assert (error.value.code, error.value.param) == ("file_not_ready", "input_file_id")
    assert gateway.openrelay(mine.key).files.delete(file_id).deleted
    refused(mine.call("GET", f"/{file_id}"), 404, "file_not_found", None)


def test_what_is_refused(gateway: LiveGateway) -> None:
    mine = Uploader(gateway, "refused")
    refused(mine.begin(MAX_UPLOAD_BYTES + 1), 413, "file_too_large", "bytes")
    for changes in ({"bytes": 0}, {"bytes": "7"}, {"bytes": True}, {"bytes": 7.5}):
        refused(mine.begin(**changes), 400, "invalid_file", "bytes")
    refused(mine.call("POST", json={"filename": "a", "bytes": 1}), 400, "invalid_file", "purpose")
    for name in (".hidden", "a/b", "", "x" * 201, "ä", "a\n"):
        refused(mine.begin(filename=name), 400, "invalid_file", "filename")
    refused(mine.begin(purpose="fine-tune"), 400, "invalid_file", "purpose")
    refused(mine.begin(other=1), 400, "invalid_request", "other")
    refused(mine.call("POST", content=b"[]"), 400, "invalid_request", None)
    plain = {"Content-Type": "text/plain"}
    refused(mine.call("POST", content=b"{}", headers=plain), 415, "unsupported_media_type", None)
    file_id = mine.begin(7).json()["id"]
    for number in (0, -1, 10_001, "x", "1.0"):
        refused(mine.part(file_id, number, b"the end"), 400, "invalid_request", "part_number")
    refused(mine.part(file_id, 2, b"the end"), 400, "invalid_part", "part_number")
    for content in (b"the en", b"the end!", b""):
        refused(mine.part(file_id, 1, content), 400, "invalid_part", "part_number")
    too_much = mine.part(file_id, 1, b"x" * (PART_BYTES + 1))
    refused(too_much, 413, "request_too_large", None)
    other = {"X-Part-Sha256": sha256(b"other").hexdigest()}
    refused(
        mine.part(file_id, 1, b"the end", **other), 400, "part_sha256_mismatch", "X-Part-Sha256"
    )
    bad = {"X-Part-Sha256": "abc"}
    refused(mine.part(file_id, 1, b"the end", **bad), 400, "invalid_request", "X-Part-Sha256")
    refused(mine.call("POST", f"/{file_id}/complete"), 409, "upload_incomplete", None)
    refused(mine.part(NOBODY, 1, b"the end"), 404, "file_not_found", None)
    assert mine.call("GET", f"/{file_id}").json()["upload"]["received"] == []
    assert not list(gateway.state.settings.incoming.iterdir())


def test_so_many_uploads_are_in_progress_at_most(gateway: LiveGateway) -> None:
    mine = Uploader(gateway, "many")
    made = [mine.begin(7).json()["id"] for _ in range(3)]
    answer = mine.begin(7)
    refused(answer, 429, "rate_limited", None)
    assert answer.headers["retry-after"] == "60"
    deleted = mine.call("DELETE", f"/{made[0]}")
    assert deleted.json() == {"id": made[0], "object": "file", "deleted": True}
    assert mine.begin(7).status_code == 200


def test_files_are_listed_in_pages(gateway: LiveGateway) -> None:
    mine = Uploader(gateway, "pages")
    client = gateway.client(mine.key)
    made = [client.files.create(file=json.dumps(at).encode(), purpose="batch").id for at in "abc"]
    made.append(mine.begin(7).json()["id"])
    seen: list[str] = []
    page = mine.call("GET", "?limit=3").json()
    assert (page["has_more"], page["first_id"]) == (True, page["data"][0]["id"])
    seen += [row["id"] for row in page["data"]]
    page = mine.call("GET", f"?limit=3&after={page['last_id']}").json()
    assert not page["has_more"]
    seen += [row["id"] for row in page["data"]]
    assert seen == made[::-1]
    refused(mine.call("GET", "?limit=0"), 400, "invalid_request", "limit")
    refused(mine.call("GET", f"?after={NOBODY}"), 400, "invalid_request", "after")
