"""Inputs that broke other batch systems at upload, create and list; row names as in the table."""

from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest
from batch_rows import CHAT, EMOJI, encoded, good, request
from live_gateway import LiveGateway, live_gateway
from small_model import small_model_hub

BOUNDARY = "b-o-u-n-d"
PURPOSE = ('name="purpose"', b"batch")
FILE = ('name="file"; filename="in.jsonl"', good(1).data)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveGateway]:
    folder = tmp_path_factory.mktemp("gateway")
    with (
        small_model_hub(tmp_path_factory.mktemp("hub")),
        live_gateway(folder, open_orders=1_000, quotes_per_day=10_000) as running,
    ):
        yield running


def assert_error(answer: httpx.Response, status: int, code: str, param: str | None) -> None:
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/json")
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert (error["code"], error["param"]) == (code, param)
    assert error["message"] and error["type"]


FILENAMES: list[tuple[str, bool]] = [
    ("upload", True), ("in (1).jsonl", True), ("x" * 200, True), (" in .jsonl ", True),
    ("día 日本.jsonl", False), ('a"b.jsonl', False), ("x" * 201, False), ("../x.jsonl", False),
    (".hidden", False), ("a\\b", False), ("a\x00b", False), ("a\r\nb", False), ("a/b", False),
    (EMOJI, False),
]  # fmt: skip


@pytest.mark.parametrize(("filename", "fits"), FILENAMES, ids=ascii)
def test_b11_filenames(gateway: LiveGateway, filename: str, fits: bool) -> None:
    client = gateway.client()
    before = [row.id for row in client.files.list()]
    if fits:
        file = client.files.create(file=(filename, good(1).data), purpose="batch")
        assert client.files.retrieve(file.id).filename == filename
        header = client.files.with_raw_response.content(file.id).headers["content-disposition"]
        assert header == f'attachment; filename="{filename}"'
        return
    with pytest.raises(openai.BadRequestError) as refused:
        client.files.create(file=(filename, good(1).data), purpose="batch")
    assert (refused.value.code, refused.value.param) == ("invalid_file", "file")
    assert [row.id for row in client.files.list()] == before


def form(*parts: tuple[str, bytes]) -> bytes:
    head = f"--{BOUNDARY}\r\nContent-Disposition: form-data; "
    pieces = (head.encode() + name.encode() + b"\r\n\r\n" + value for name, value in parts)
    return b"\r\n".join([*pieces, f"--{BOUNDARY}--\r\n".encode()])


def purpose(value: bytes) -> tuple[str, bytes]:
    return ('name="purpose"', value)


FORMS: list[tuple[str, bytes, str | None]] = [
    ("file-first", form(FILE, PURPOSE), None),
    ("no-purpose", form(FILE), "purpose"),
    ("purpose-twice", form(PURPOSE, FILE, PURPOSE), "purpose"),
    ("Batch", form(purpose(b"Batch"), FILE), "purpose"),
    ("fine-tune", form(FILE, purpose(b"fine-tune")), "purpose"),
    ("1-MB-purpose", form(purpose(b"x" * 1_000_000), FILE), "purpose"),
    ("no-file", form(PURPOSE), "file"),
    ("file-twice", form(FILE, PURPOSE, FILE), "file"),
    ("file-no-file", form(PURPOSE, ('name="file"', b"x")), "file"),
    ("empty-file", form(PURPOSE, ('name="file"; filename="a"', b"")), "file"),
    ("truncated", form(PURPOSE, FILE)[:-6], "file"),
    ("no-form", b"nonsense", "file"),
    ("nothing", b"", "file"),
]


@pytest.mark.parametrize(
    ("body", "param"), [row[1:] for row in FORMS], ids=[row[0] for row in FORMS]
)
def test_b13_forms(gateway: LiveGateway, body: bytes, param: str | None) -> None:
    kind = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}
    before = [row.id for row in gateway.client().files.list()]
    answer = httpx.post(f"{gateway.base_url}/files", content=body, headers=gateway.auth | kind)
    if param is None:
        assert answer.status_code == 200
        return
    assert_error(answer, 400, "invalid_file", param)
    assert [row.id for row in gateway.client().files.list()] == before


def test_b13_no_boundary(gateway: LiveGateway) -> None:
    headers = gateway.auth | {"Content-Type": "multipart/form-data"}
    answer = httpx.post(f"{gateway.base_url}/files", content=form(PURPOSE, FILE), headers=headers)
    assert_error(answer, 400, "invalid_file", "file")


def test_b15_chunked(gateway: LiveGateway) -> None:
    kind = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}
    answer = httpx.post(
        f"{gateway.base_url}/files",
        content=iter([form(PURPOSE, FILE)]),
        headers=gateway.auth | kind,
    )
    assert_error(answer, 411, "length_required", None)


METADATA: list[tuple[Any, str | None]] = [
    (None, None),
    ({}, None),
    ({"": "empty key"}, None),
    ({str(at): "" for at in range(16)}, None),
    ({EMOJI * 64: EMOJI * 512}, None),
    ({"a": '\u2028"\\\r\n\t'}, None),
    ({"a": 1}, "metadata.a"),
    ({"a": None}, "metadata.a"),
    ({"a": ["x"]}, "metadata.a"),
    ({"a": {}}, "metadata.a"),
    ({"a": True}, "metadata.a"),
    ("x", "metadata"),
    ([], "metadata"),
    (False, "metadata"),
    (0, "metadata"),
    ({str(at): "" for at in range(17)}, "metadata"),
    ({EMOJI * 65: ""}, "metadata"),
    ({"a": EMOJI * 513}, "metadata.a"),
    ({"a": "\0"}, "metadata"),
    ({"\0": "a"}, "metadata"),
]


@pytest.mark.parametrize(("metadata", "param"), METADATA, ids=lambda value: ascii(value)[:30])
def test_b19_metadata(gateway: LiveGateway, metadata: Any, param: str | None) -> None:
    client = gateway.client(gateway.new_key("metadata"))
    file = client.files.create(file=good(1).data, purpose="batch")
    body = {"input_file_id": file.id, "endpoint": CHAT, "completion_window": "24h"}
    answer = httpx.post(
        f"{gateway.base_url}/batches",
        json=body | {"metadata": metadata},
        headers={"Authorization": f"Bearer {client.api_key}"},
    )
    if param is None:
        assert answer.status_code == 200, answer.text
        assert answer.json()["metadata"] == metadata
        assert client.batches.retrieve(answer.json()["id"]).to_dict()["metadata"] == metadata
    else:
        error = answer.json()["error"]
        assert (answer.status_code, error["code"]) == (400, "invalid_metadata")
        assert error["param"] == param


@pytest.mark.parametrize("limit", ["0", "-1", "101", "1000", "abc", "1.5", "", "5&limit=5"])
def test_b23_limits(gateway: LiveGateway, limit: str) -> None:
    answer = httpx.get(f"{gateway.base_url}/batches?limit={limit}", headers=gateway.auth)
    assert_error(answer, 400, "invalid_request", "limit")
    assert "limit" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "header", [None, "Bearer rlq_" + "0" * 48, "Basic cmxxOng=", "Bearer", "rlq_x"], ids=repr
)
def test_b27_keys(gateway: LiveGateway, header: str | None) -> None:
    headers = {} if header is None else {"Authorization": header}
    for path in ("files", "batches"):
        answer = httpx.get(f"{gateway.base_url}/{path}", headers=headers)
        assert_error(answer, 401, "invalid_api_key", None)


@pytest.mark.parametrize(
    "body",
    [b'{"a":' * 1_000, b'{"metadata":' + b"[" * 100_000, b'{"metadata": {"a": "\\ud800"}}', b"[]"],
    ids=lambda body: body[:14].decode(),
)
def test_b35_create_bodies(gateway: LiveGateway, body: bytes) -> None:
    headers = gateway.auth | {"Content-Type": "application/json"}
    answer = httpx.post(f"{gateway.base_url}/batches", content=body, headers=headers)
    assert_error(answer, 400, "invalid_request", None)


ERRORS: list[tuple[str, str, dict[str, str], int, str]] = [
    ("GET", "/nowhere", {}, 404, "not_found"),
    ("GET", "/files//content", {}, 404, "not_found"),
    ("GET", "/files/file-x", {}, 404, "file_not_found"),
    ("GET", "/batches/batch_x", {}, 404, "batch_not_found"),
    ("PUT", "/batches", {}, 405, "method_not_allowed"),
    ("POST", "/batches", {"Content-Type": "text/plain"}, 415, "unsupported_media_type"),
    ("POST", "/files", {"Content-Type": "application/json"}, 415, "unsupported_media_type"),
]


@pytest.mark.parametrize(
    ("method", "path", "headers", "status", "code"), ERRORS, ids=lambda value: str(value)
)
def test_b63_errors(
    gateway: LiveGateway, method: str, path: str, headers: dict[str, str], status: int, code: str
) -> None:
    answer = httpx.request(method, gateway.base_url + path, headers=gateway.auth | headers)
    assert_error(answer, status, code, None)


def test_b63_too_large(gateway: LiveGateway) -> None:
    headers = gateway.auth | {"Content-Type": "application/json"}
    answer = httpx.post(f"{gateway.base_url}/batches", content=b" " * 1_100_000, headers=headers)
    assert_error(answer, 413, "request_too_large", None)


def test_b03_odd_pieces(gateway: LiveGateway) -> None:
    content = encoded(request("q1", messages=[{"role": "user", "content": EMOJI * 5_000}]))
    body = form(PURPOSE, ('name="file"; filename="in.jsonl"', content))
    pieces = (body[at : at + 8_191] for at in range(0, len(body), 8_191))
    headers = {
        "Content-Type": f"multipart/form-data; boundary={BOUNDARY}",
        "Content-Length": str(len(body)),
    }
    answer = httpx.post(f"{gateway.base_url}/files", content=pieces, headers=gateway.auth | headers)
    assert answer.status_code == 200
    assert gateway.client().files.content(answer.json()["id"]).content == content


def test_b63_any_bytes_come_back(gateway: LiveGateway) -> None:
    client = gateway.client()
    text = "".join(chr(at) for at in range(0x11000) if not 0xD800 <= at < 0xE000)
    for content in (text.encode(), bytes(range(256)) * 300, b"\r", b"\n", b"{}"):
        file = client.files.create(file=content, purpose="batch")
        assert file.bytes == len(content)
        assert client.files.content(file.id).content == content
