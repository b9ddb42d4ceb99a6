"""B25: an output of more than 300 MB, read slowly, cut off and resumed, in flat memory."""

import hashlib
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from live_gateway import LiveGateway, live_gateway
from sqlmodel import select

from gateway.store.tables import Account, File, FilePurpose, new_id

SIZE = 320 * 2**20
PIECE = 2**20
# What sending may add to the process, which holds the reader too.
ROOM_KIB = 64 * 1024

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveGateway]:
    with live_gateway(tmp_path_factory.mktemp("gateway")) as running:
        yield running


@pytest.fixture(scope="module")
def output(gateway: LiveGateway, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """The id and SHA-256 of an output file that stands in the store as a delivery puts it there."""
    path = tmp_path_factory.mktemp("output") / "output.jsonl"
    digest = hashlib.sha256()
    with path.open("wb") as file:
        for number in range(SIZE // PIECE):
            piece = (b'{"number":%08d,"text":"' % number).ljust(PIECE - 3, b"x") + b'"}\n'
            digest.update(piece)
            file.write(piece)
    row = File(
        id=f"file-out-{new_id()}",
        account_id="",
        filename="output.jsonl",
        bytes=SIZE,
        sha256=digest.hexdigest(),
        purpose=FilePurpose.BATCH_OUTPUT,
        object_key="orders/large/output.jsonl",
        created_at_ms=gateway.state.now_ms(),
    )
    gateway.run(_keep(gateway, row, path))
    return row.id, digest.hexdigest()


async def _keep(gateway: LiveGateway, row: File, path: Path) -> None:
    store = gateway.state.store
    async with store.read() as session:
        row.account_id = (await session.exec(select(Account.id))).one()
    await store.objects.put(row.object_key, path)
    async with store.write() as session:
        session.add(row)


def peak_kib() -> int:
    """The most resident memory of this process so far."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1])


def url(gateway: LiveGateway, file_id: str) -> str:
    return f"{gateway.base_url}/files/{file_id}/content"


def test_a_cut_download_is_resumed_in_flat_memory(
    gateway: LiveGateway, output: tuple[str, str]
) -> None:
    file_id, sha256 = output
    digest, seen, before = hashlib.sha256(), 0, peak_kib()
    with httpx.stream("GET", url(gateway, file_id), headers=gateway.auth) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-length"] == str(SIZE)
        etag = answer.headers["etag"]
        for piece in answer.iter_raw(65_536):
            digest.update(piece)
            seen += len(piece)
            if seen >= SIZE * 6 // 10:
                break
    resume = gateway.auth | {"Range": f"bytes={seen}-", "If-Range": etag}
    with httpx.stream("GET", url(gateway, file_id), headers=resume) as answer:
        assert answer.status_code == 206
        assert answer.headers["content-range"] == f"bytes {seen}-{SIZE - 1}/{SIZE}"
        assert answer.headers["content-length"] == str(SIZE - seen)
        last = b""
        for piece in answer.iter_raw(65_536):
            digest.update(piece)
            seen += len(piece)
            last = piece
    assert (seen, digest.hexdigest()) == (SIZE, sha256)
    assert last.endswith(b"\n")
    assert peak_kib() - before < ROOM_KIB


def test_many_slow_readers_share_flat_memory(gateway: LiveGateway, output: tuple[str, str]) -> None:
    before = peak_kib()
    with httpx.Client(headers=gateway.auth) as client, ExitStack() as stack:
        for _ in range(8):
            answer = stack.enter_context(client.stream("GET", url(gateway, output[0])))
            assert next(answer.iter_raw(65_536))
        assert client.get(f"{gateway.base_url}/files").status_code == 200
        assert peak_kib() - before < ROOM_KIB


@pytest.mark.parametrize(
    ("wanted", "status", "length", "content_range"),
    [
        ("bytes=0-0", 206, 1, f"bytes 0-0/{SIZE}"),
        (f"bytes={SIZE - 1}-", 206, 1, f"bytes {SIZE - 1}-{SIZE - 1}/{SIZE}"),
        ("bytes=-2", 206, 2, f"bytes {SIZE - 2}-{SIZE - 1}/{SIZE}"),
        (f"bytes={SIZE}-", 416, None, f"bytes */{SIZE}"),
        ("bytes=-0", 416, None, f"bytes */{SIZE}"),
    ],
)
def test_ranges(
    gateway: LiveGateway,
    output: tuple[str, str],
    wanted: str,
    status: int,
    length: int | None,
    content_range: str,
) -> None:
    answer = httpx.get(url(gateway, output[0]), headers=gateway.auth | {"Range": wanted})
    assert (answer.status_code, answer.headers["content-range"]) == (status, content_range)
    assert length is None or len(answer.content) == length


@pytest.mark.parametrize(
    "headers",
    [
        {"Range": "bytes=0-1,4-5"},
        {"Range": "bytes=5-1"},
        {"Range": "lines=1-2"},
        {"Range": "bytes=0-1", "If-Range": '"another"'},
    ],
    ids=str,
)
def test_what_is_no_single_range_gives_the_whole(
    gateway: LiveGateway, output: tuple[str, str], headers: dict[str, str]
) -> None:
    with httpx.stream("GET", url(gateway, output[0]), headers=gateway.auth | headers) as answer:
        assert (answer.status_code, answer.headers["content-length"]) == (200, str(SIZE))


def test_head(gateway: LiveGateway, output: tuple[str, str]) -> None:
    answer = httpx.head(url(gateway, output[0]), headers=gateway.auth)
    assert (answer.status_code, answer.headers["content-length"]) == (200, str(SIZE))
    assert answer.headers["accept-ranges"] == "bytes"
