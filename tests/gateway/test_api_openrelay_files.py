"""Files of the OpenRelay dialect: large and concurrent uploads, pages, deletion."""

import hashlib
import http.client
import json
import socket
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx
import openai
import pytest
from live_gateway import LiveGateway, live_gateway

from gateway.store.tables import File, FilePurpose, new_id

LIMIT = 209_715_200
FORM = b"\r\n".join(
    [
        b"--xyz",
        b'Content-Disposition: form-data; name="purpose"',
        b"",
        b"batch",
        b"--xyz",
        b'Content-Disposition: form-data; name="file"; filename="a.jsonl"',
        b"",
        b"{}",
        b"--xyz--",
        b"",
    ]
)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveGateway]:
    with live_gateway(tmp_path_factory.mktemp("gateway"), uploads_at_once=2) as running:
        yield running


@pytest.fixture
def key(gateway: LiveGateway, request: pytest.FixtureRequest) -> str:
    """The key of an account that no other test uses."""
    name = f"t{hashlib.sha256(request.node.name.encode()).hexdigest()[:16]}"
    return gateway.new_key(name)


@pytest.fixture
def client(gateway: LiveGateway, key: str) -> openai.OpenAI:
    return gateway.openrelay(key)


def ask(gateway: LiveGateway, key: str, path: str, method: str = "GET") -> httpx.Response:
    headers = {"Authorization": f"Bearer {key}"}
    return httpx.request(method, gateway.openrelay_url + path, headers=headers)


def assert_refused(answer: httpx.Response, status: int, code: str, param: str | None) -> None:
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert (error["code"], error["param"]) == (code, param)


def copies(
    gateway: LiveGateway, file_id: str, count: int, purpose: str = FilePurpose.BATCH
) -> list[str]:
    """Add rows of a file, as many uploads or deliveries would; two of each millisecond."""

    async def add() -> list[str]:
        async with gateway.state.store.write() as session:
            row = await session.get(File, file_id)
            assert row is not None
            kind = "file-" if purpose == FilePurpose.BATCH else "file-out-"
            made = [
                File(
                    **row.model_dump()
                    | {
                        "id": f"{kind}{new_id()}",
                        "purpose": purpose,
                        "created_at_ms": row.created_at_ms + 1 + at // 2,
                    }
                )
                for at in range(count)
            ]
            session.add_all(made)
            return [one.id for one in made]

    return gateway.run(add())


def test_a_file_of_either_dialect_is_a_file_of_both(
    gateway: LiveGateway, key: str, client: openai.OpenAI
) -> None:
    strict = gateway.client(key)
    made = [
        one.files.create(file=("f.jsonl", b"{}\n"), purpose="batch") for one in (client, strict)
    ]
    for one in (client, strict):
        assert [one.files.retrieve(file.id) for file in made] == made
        assert [one.files.content(file.id).content for file in made] == [b"{}\n"] * 2
    part = client.files.content(made[0].id, extra_headers={"Range": "bytes=1-1"})
    assert (part.response.status_code, part.content) == (206, b"}")


def test_an_upload_past_the_limit_of_the_other_dialect(client: openai.OpenAI) -> None:
    content = b"x" * 33_554_433
    file = client.files.create(file=("f.jsonl", content), purpose="batch")
    assert file.bytes == len(content)
    assert file.to_dict()["sha256"] == hashlib.sha256(content).hexdigest()


@pytest.mark.slow
def test_exact_size_limit(client: openai.OpenAI) -> None:
    content = b"x" * LIMIT
    assert client.files.create(file=("f.jsonl", content), purpose="batch").bytes == LIMIT
    with pytest.raises(openai.APIStatusError) as refused:
        client.files.create(file=("f.jsonl", content + b"x"), purpose="batch")
    assert (refused.value.status_code, refused.value.code) == (413, "file_too_large")


def test_too_large_is_refused_before_the_body(gateway: LiveGateway) -> None:
    place = urlsplit(gateway.origin)
    for path, kind in (("files", "multipart/form-data; boundary=xyz"), ("batches", "")):
        head = (
            f"POST /v1/{path} HTTP/1.1\r\nHost: x\r\nContent-Type: {kind or 'application/json'}\r\n"
            f"Authorization: {gateway.auth['Authorization']}\r\nContent-Length: {LIMIT + 10**6}\r\n"
        )
        with socket.create_connection((place.hostname, place.port), timeout=20) as connection:
            connection.sendall(head.encode() + b"\r\n")
            answer = connection.recv(4096)
        assert answer.startswith(b"HTTP/1.1 413 "), answer


def begin_upload(gateway: LiveGateway, key: str) -> http.client.HTTPConnection:
    """Send an upload up to its last byte."""
    place = urlsplit(gateway.origin)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=20)
    connection.putrequest("POST", "/v1/files")
    connection.putheader("Authorization", f"Bearer {key}")
    connection.putheader("Content-Type", "multipart/form-data; boundary=xyz")
    connection.putheader("Content-Length", str(len(FORM)))
    connection.endheaders(FORM[:-1])
    return connection


def test_too_many_uploads_at_once(gateway: LiveGateway, key: str, client: openai.OpenAI) -> None:
    slow = [begin_upload(gateway, key) for _ in range(2)]
    incoming = gateway.state.settings.incoming
    while len(list(incoming.iterdir())) < 2:
        assert ask(gateway, key, "/files").status_code == 200
    with pytest.raises(openai.RateLimitError) as refused:
        client.files.create(file=b"{}\n", purpose="batch")
    assert refused.value.code == "rate_limited"
    assert 1 <= int(refused.value.response.headers["retry-after"]) <= 60
    # The limit is the account's own.
    other = gateway.openrelay(gateway.new_key("another"))
    assert other.files.create(file=b"{}\n", purpose="batch").bytes == 3
    for connection in slow:
        connection.send(FORM[-1:])
        assert connection.getresponse().status == 200
        connection.close()
    assert client.files.create(file=b"{}\n", purpose="batch").bytes == 3
    assert len(list(client.files.list())) == 3


def test_refused_uploads_free_their_place(gateway: LiveGateway, key: str) -> None:
    headers = {
        "Authorization": f"Bearer {key}",
        "Content-Type": "multipart/form-data; boundary=xyz",
    }
    for _ in range(5):
        answer = httpx.post(f"{gateway.openrelay_url}/files", content=b"nothing", headers=headers)
        assert_refused(answer, 400, "invalid_file", "file")


def test_pages_of_files(gateway: LiveGateway, key: str, client: openai.OpenAI) -> None:
    empty = ask(gateway, key, "/files").json()
    assert empty == {"object": "list", "data": [], "has_more": False}
    first = client.files.create(file=b"{}\n", purpose="batch").id
    ids = [first, *copies(gateway, first, 5)]
    outputs = copies(gateway, first, 2, FilePurpose.BATCH_OUTPUT)
    everything = {row.id for row in client.files.list()}
    assert everything == {*ids, *outputs}
    for limit in (1, 2, 5, 6, 100):
        newest = client.files.list(limit=limit, purpose="batch")
        assert [row.id for row in newest] == ids[::-1]
        oldest = client.files.list(limit=limit, purpose="batch", order="asc")
        assert [row.id for row in oldest] == ids
    page = ask(gateway, key, f"/files?limit=2&order=asc&purpose=batch&after={ids[1]}").json()
    assert (page["first_id"], page["last_id"], page["has_more"]) == (ids[2], ids[3], True)
    last = ask(gateway, key, f"/files?limit=2&order=asc&purpose=batch&after={ids[3]}").json()
    assert ([row["id"] for row in last["data"]], last["has_more"]) == (ids[4:], False)
    delivered = client.files.list(purpose="batch_output")
    assert {row.id for row in delivered} == set(outputs)


@pytest.mark.parametrize(
    "query",
    ["limit=0", "limit=10001", "limit=x", "limit=1.0", "limit=", "order=up", "order=", "purpose=x",
     "purpose=", "after=", "after=file-x", "order=asc&order=asc", "purpose=batch&purpose=batch"],
)  # fmt: skip
def test_queries_that_are_none(gateway: LiveGateway, key: str, query: str) -> None:
    answer = ask(gateway, key, f"/files?{query}")
    assert_refused(answer, 400, "invalid_request", query.partition("=")[0])


def test_delete(gateway: LiveGateway, key: str, client: openai.OpenAI) -> None:
    ids = [client.files.create(file=b"{}\n", purpose="batch").id for _ in range(4)]
    deleted = client.files.delete(ids[0])
    assert deleted.to_dict() == {"id": ids[0], "object": "file", "deleted": True}
    for one in (client, gateway.client(key)):
        assert ids[0] not in [row.id for row in one.files.list()]
        for call in (one.files.retrieve, one.files.content):
            with pytest.raises(openai.NotFoundError) as missing:
                call(ids[0])
            assert missing.value.code == "file_not_found"
    with pytest.raises(openai.NotFoundError):
        client.files.delete(ids[0])
    # Who deletes while reading pages meets every file.
    for row in client.files.list(limit=1):
        client.files.delete(row.id)
    assert list(client.files.list()) == []


def test_the_strict_dialect_deletes_nothing(gateway: LiveGateway, client: openai.OpenAI) -> None:
    file_id = client.files.create(file=b"{}\n", purpose="batch").id
    answer = httpx.delete(f"{gateway.base_url}/files/{file_id}", headers=gateway.auth)
    assert answer.status_code == 405


def test_models_of_nobody(gateway: LiveGateway, key: str) -> None:
    answer: dict[str, Any] = json.loads(ask(gateway, key, "/models").content)
    assert answer == {"object": "list", "data": []}
