"""Files through a live gateway: the official client, and raw HTTP where it is about bytes."""

import hashlib
import http.client
import io
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx
import openai
import pytest
from live_gateway import LiveGateway, live_gateway

from gateway.store.tables import File, new_id

LIMIT = 33_554_432
LINE = b'{"custom_id":"q1","method":"POST","url":"/v1/chat/completions","body":{}}\n'


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveGateway]:
    with live_gateway(tmp_path_factory.mktemp("gateway")) as running:
        yield running


@pytest.fixture
def fresh(gateway: LiveGateway, request: pytest.FixtureRequest) -> openai.OpenAI:
    """The client of an account that no other test uses."""
    name = f"t{hashlib.sha256(request.node.name.encode()).hexdigest()[:16]}"
    return gateway.client(gateway.new_key(name))


def form(*parts: tuple[str, bytes], boundary: str = "xyz") -> bytes:
    """A multipart body of raw Content-Disposition values and contents."""
    body = b""
    for disposition, content in parts:
        head = f"--{boundary}\r\nContent-Disposition: {disposition}\r\n\r\n"
        body += head.encode() + content + b"\r\n"
    return body + f"--{boundary}--\r\n".encode()


PURPOSE = ('form-data; name="purpose"', b"batch")
FILE = ('form-data; name="file"; filename="a.jsonl"', LINE)


def post(gateway: LiveGateway, body: bytes, kind: str = "multipart/form-data; boundary=xyz"):
    return httpx.post(
        f"{gateway.base_url}/files", content=body, headers=gateway.auth | {"Content-Type": kind}
    )


def assert_error(response: httpx.Response, status: int, code: str, param: str | None) -> None:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    assert response.headers["x-request-id"].startswith("req_")
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert (error["code"], error["param"]) == (code, param)


def test_upload_read_list_download(fresh: openai.OpenAI) -> None:
    file = fresh.files.create(file=("day one (1).jsonl", LINE), purpose="batch")
    assert file.status == "processed"
    assert file.bytes == len(LINE)
    assert file.filename == "day one (1).jsonl"
    assert file.to_dict()["sha256"] == hashlib.sha256(LINE).hexdigest()
    assert set(file.to_dict()) == {
        "id", "object", "bytes", "created_at", "filename", "purpose", "status", "sha256",
    }  # fmt: skip
    assert fresh.files.retrieve(file.id) == file
    assert fresh.files.content(file.id).content == LINE
    second = fresh.files.create(file=b"x\n", purpose="batch")
    assert second.filename == "upload"
    assert [row.id for row in fresh.files.list()] == [second.id, file.id]


def test_bytes_come_back_equal(fresh: openai.OpenAI) -> None:
    # A byte-order mark, an emoji over a chunk's edge, CRLF, a separator of another world, and junk.
    content = b"\xef\xbb\xbf" + b"a" * 65_532 + "😀".encode() + b"\r\n\xe2\x80\xa8\xff\x00\r--xyz--"
    file = fresh.files.create(file=("f.jsonl", content * 3), purpose="batch")
    assert fresh.files.content(file.id).content == content * 3


def test_exact_size_limit(gateway: LiveGateway, fresh: openai.OpenAI) -> None:
    file = fresh.files.create(file=("f.jsonl", b"a" * LIMIT), purpose="batch")
    assert file.bytes == LIMIT
    for size in (LIMIT + 1, LIMIT + 1_000_000):
        with pytest.raises(openai.APIStatusError) as caught:
            fresh.files.create(file=("f.jsonl", b"a" * size), purpose="batch")
        assert caught.value.status_code == 413
        assert caught.value.code == "file_too_large"
    assert [row.id for row in fresh.files.list()] == [file.id]
    assert list(gateway.state.settings.incoming.iterdir()) == []


def test_too_large_is_refused_before_the_body(gateway: LiveGateway) -> None:
    head = (
        "POST /api/openai/v1/files HTTP/1.1\r\nHost: x\r\n"
        f"Authorization: {gateway.auth['Authorization']}\r\n"
        "Content-Type: multipart/form-data; boundary=xyz\r\n"
        f"Content-Length: {LIMIT * 10}\r\n\r\n"
    )
    place = urlsplit(gateway.origin)
    with socket.create_connection((place.hostname, place.port), timeout=10) as connection:
        connection.sendall(head.encode())
        answer = connection.recv(4096)
    assert answer.startswith(b"HTTP/1.1 413 ")


def test_chunked_upload_is_411_in_one_attempt(gateway: LiveGateway) -> None:
    attempts = []
    transport = httpx.HTTPTransport()

    def count(request: httpx.Request) -> None:
        attempts.append(request.url.path)

    with httpx.Client(transport=transport, event_hooks={"request": [count]}) as http_client:
        pieces = iter([form(PURPOSE, FILE)[:50], form(PURPOSE, FILE)[50:], b"x" * 5_000_000])
        response = http_client.post(
            f"{gateway.base_url}/files",
            content=pieces,
            headers=gateway.auth | {"Content-Type": "multipart/form-data; boundary=xyz"},
        )
    assert len(attempts) == 1
    assert_error(response, 411, "length_required", None)


class Unsized(io.RawIOBase):
    """A stream whose length nobody can know, as a pipe is."""

    def __init__(self, content: bytes) -> None:
        self._left = content

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:
        count = min(len(buffer), len(self._left))
        buffer[:count], self._left = self._left[:count], self._left[count:]
        return count


def test_client_sees_411_as_a_status_error(gateway: LiveGateway) -> None:
    client = gateway.client(max_retries=2)
    with pytest.raises(openai.APIStatusError) as caught:
        client.files.create(file=("x.jsonl", Unsized(LINE * 10_000)), purpose="batch")
    assert (caught.value.status_code, caught.value.code) == (411, "length_required")


@pytest.mark.parametrize(
    "filename", ["upload", "a", "x" * 200, " spaced .jsonl ", "(1)-_.jsonl", "no extension"]
)
def test_filenames_come_back_exactly(fresh: openai.OpenAI, filename: str) -> None:
    file = fresh.files.create(file=(filename, LINE), purpose="batch")
    assert file.filename == filename
    header = fresh.files.with_raw_response.content(file.id).headers["content-disposition"]
    assert header == f'attachment; filename="{filename}"'


@pytest.mark.parametrize(
    "filename",
    ["día.jsonl", "日本.jsonl", 'a"b.jsonl', "x" * 201, "../x", ".hidden", "a\\b", "a%22b"],
)
def test_bad_filenames_are_refused(fresh: openai.OpenAI, filename: str) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        fresh.files.create(file=(filename, LINE), purpose="batch")
    assert (caught.value.code, caught.value.param) == ("invalid_file", "file")
    assert list(fresh.files.list()) == []


@pytest.mark.parametrize(
    ("parts", "param"),
    [
        ((FILE,), "purpose"),
        ((FILE, PURPOSE, PURPOSE), "purpose"),
        ((('form-data; name="purpose"', b"Batch"), FILE), "purpose"),
        ((('form-data; name="purpose"', b"fine-tune"), FILE), "purpose"),
        ((('form-data; name="purpose"', b"batch\n"), FILE), "purpose"),
        ((('form-data; name="purpose"', b"x" * 1_000_000), FILE), "purpose"),
        ((PURPOSE,), "file"),
        ((PURPOSE, FILE, FILE), "file"),
        ((PURPOSE, ('form-data; name="file"', LINE)), "file"),
        ((PURPOSE, ('form-data; name="file"; filename=""', LINE)), "file"),
        ((PURPOSE, ('form-data; name="file"; filename="a"; filename="b"', LINE)), "file"),
        ((PURPOSE, ('form-data; name="file"; filename="a.jsonl"', b"")), "file"),
        ((PURPOSE, *[('form-data; name="x"', b"1")] * 40, FILE), "file"),
    ],
)
def test_malformed_forms_leave_nothing(
    gateway: LiveGateway, parts: tuple[tuple[str, bytes], ...], param: str
) -> None:
    before = httpx.get(f"{gateway.base_url}/files", headers=gateway.auth).json()
    assert_error(post(gateway, form(*parts)), 400, "invalid_file", param)
    assert httpx.get(f"{gateway.base_url}/files", headers=gateway.auth).json() == before
    assert list(gateway.state.settings.incoming.iterdir()) == []


def test_part_order_and_further_fields_are_free(gateway: LiveGateway) -> None:
    extra = ('form-data; name="expires_after[seconds]"', b"3600")
    for parts in ((FILE, PURPOSE), (extra, FILE, extra, PURPOSE)):
        assert post(gateway, form(*parts)).status_code == 200


def test_broken_multipart_bodies(gateway: LiveGateway) -> None:
    whole = form(PURPOSE, FILE)
    assert_error(post(gateway, whole[:-8]), 400, "invalid_file", "file")
    assert_error(post(gateway, b"no form at all"), 400, "invalid_file", "file")
    assert_error(post(gateway, b""), 400, "invalid_file", "file")
    assert_error(post(gateway, whole, "multipart/form-data"), 400, "invalid_file", "file")
    assert_error(post(gateway, whole, "application/json"), 415, "unsupported_media_type", None)


def test_ids_of_others_are_unknown_ids(gateway: LiveGateway, fresh: openai.OpenAI) -> None:
    mine = fresh.files.create(file=("f.jsonl", LINE), purpose="batch").id
    unknown = "file-00000000-0000-7000-8000-000000000000"
    answers = set()
    for file_id in (mine, unknown, unknown.replace("file-", "file-out-"), "nonsense"):
        for suffix in ("", "/content"):
            url = f"{gateway.base_url}/files/{file_id}{suffix}"
            response = httpx.get(url, headers=gateway.auth)
            assert_error(response, 404, "file_not_found", None)
            answers.add(response.text)
    assert len(answers) == 1


def test_download_ranges(gateway: LiveGateway, fresh: openai.OpenAI) -> None:
    content = bytes(range(256)) * 8
    file_id = gateway.client().files.create(file=("f.jsonl", content), purpose="batch").id
    url = f"{gateway.base_url}/files/{file_id}/content"

    def get(**headers: str) -> httpx.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return httpx.get(url, headers=gateway.auth | named)

    whole = get()
    assert whole.content == content
    assert whole.headers["content-length"] == str(len(content))
    assert whole.headers["accept-ranges"] == "bytes"
    size = len(content)
    for header, start, end in [
        ("bytes=0-0", 0, 1),
        ("bytes=5-9", 5, 10),
        ("bytes=100-", 100, size),
        ("bytes=-7", size - 7, size),
        ("bytes=-99999", 0, size),
        ("bytes=2000-999999", 2000, size),
    ]:
        part = get(Range=header)
        assert part.status_code == 206
        assert part.content == content[start:end]
        assert part.headers["content-range"] == f"bytes {start}-{end - 1}/{size}"
        assert part.headers["content-length"] == str(end - start)
    for header in ("bytes=2048-", "bytes=99999-100000", "bytes=-0"):
        response = get(Range=header)
        assert_error(response, 416, "range_not_satisfiable", "Range")
        assert response.headers["content-range"] == f"bytes */{size}"
    for header in ("bytes=5-2", "bytes=a-b", "bytes=0-1,4-5", "lines=0-1", "bytes=-"):
        response = get(Range=header)
        assert (response.status_code, response.content) == (200, content)
    etag = whole.headers["etag"]
    assert get(Range="bytes=0-4", If_Range=etag).status_code == 206
    assert get(Range="bytes=0-4", If_Range='"other"').status_code == 200


def test_head_of_a_download(gateway: LiveGateway) -> None:
    file_id = gateway.client().files.create(file=("f.jsonl", LINE), purpose="batch").id
    url = f"{gateway.base_url}/files/{file_id}/content"
    response = httpx.head(url, headers=gateway.auth)
    assert response.status_code == 200
    assert response.headers["content-length"] == str(len(LINE))
    assert response.content == b""
    assert httpx.head(url, headers=gateway.auth | {"Range": "bytes=0-1"}).status_code == 206


def test_list_is_the_newest_hundred(gateway: LiveGateway) -> None:
    client = gateway.client(gateway.new_key("hundred"))
    first = client.files.create(file=LINE, purpose="batch").id

    async def copy(count: int) -> list[str]:
        """Add rows of the same file, as many uploads would."""
        async with gateway.state.store.write() as session:
            row = await session.get(File, first)
            assert row is not None
            copies = [
                File(**row.model_dump() | {"id": f"file-{new_id()}", "created_at_ms": at})
                for at in range(row.created_at_ms + 1, row.created_at_ms + 1 + count)
            ]
            session.add_all(copies)
            return [made.id for made in copies]

    ids = gateway.run(copy(101))
    assert [row.id for row in client.files.list()] == ids[:0:-1]


def test_upload_cut_short_leaves_nothing(gateway: LiveGateway) -> None:
    place = urlsplit(gateway.origin)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=10)
    connection.putrequest("POST", "/api/openai/v1/files")
    for name, value in gateway.auth.items():
        connection.putheader(name, value)
    connection.putheader("Content-Type", "multipart/form-data; boundary=xyz")
    connection.putheader("Content-Length", "1000")
    connection.endheaders(form(PURPOSE, FILE)[:100])
    connection.close()
    # The gateway serves on, and what it had read is gone by the time it has answered the next.
    for _ in range(100):
        assert httpx.get(f"{gateway.base_url}/files", headers=gateway.auth).status_code == 200
        if not list(gateway.state.settings.incoming.iterdir()):
            return
    pytest.fail("the cut upload was kept")
