"""Fetching a delivery: its files from the gateway into a folder, the manifest written last."""

import json
import os
import re
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import stamina
from pydantic import ValidationError

from protocol.manifest import (
    ERRORS,
    MANIFEST,
    MAX_MANIFEST_BYTES,
    OUTPUT,
    RECEIPTS,
    FileRecord,
    Manifest,
)

BATCH_ID = re.compile(r"(batch_)?[0-9a-f-]{36}", re.ASCII)
_ERRNO = re.compile(r"\[Errno -?[0-9]+\] ", re.ASCII)
MOUNTS = ("/api/openai/v1", "/v1")
TIMEOUT_S = 30.0
TRIES = 5
PIECE = 64 * 1024
MAX_ORDER_BYTES = 16 * 1024 * 1024
ENDED = ("completed", "expired", "cancelled")

Progress = Callable[[str, int, int], None]
"""Called with a file's name, its bytes that are there and those in all."""


class FetchError(Exception):
    """A delivery cannot be fetched; the message says why and what to do."""


class _Passing(Exception):
    """An answer after which another try may pass."""


def fetch(
    base_url: str, api_key: str, batch_id: str, out: Path, progress: Progress | None = None
) -> Manifest:
    """Fetch the delivery of a batch into ``out`` and return its manifest.

    Files that are there already and match the manifest are kept, so a broken fetch goes on where
    it stopped. ``manifest.json`` is written once all others are whole.

    Args:
        base_url: of the batch API, as the ``openai`` client takes it.
        api_key: of the batch's account.
        batch_id: ``batch_...``.
        out: the delivery's folder, made where there is none.
        progress: told about the bytes as they arrive.

    Raises:
        FetchError: the gateway refuses or cannot be reached, the batch has no delivery (yet), or
            a file is not what the manifest says.
        OSError: the folder cannot be written.
    """
    root = gateway_root(base_url)
    if not BATCH_ID.fullmatch(batch_id):
        raise FetchError(f"{batch_id[:80]!r} is no batch id; write batch_ and the order's id")
    headers = {"Authorization": f"Bearer {api_key}"}
    with httpx2.Client(headers=headers, timeout=TIMEOUT_S) as client:
        order_url = f"{root}/api/v1/dataset-orders/{batch_id.removeprefix('batch_')}"
        order = _object(client, order_url)
        if order.get("status") not in ENDED:
            raise FetchError(f"the batch is {order.get('status')}; fetch it once it has ended")
        if not order.get("receipts"):
            raise FetchError("the batch has no delivery")
        content = _small(client, f"{order_url}/manifest", MAX_MANIFEST_BYTES)
        manifest = _manifest(content)
        out.mkdir(parents=True, exist_ok=True)
        sources = _sources(root, order_url, order)
        for name, record in manifest.statement.files.items():
            if name not in sources:
                raise FetchError(f"the gateway offers no {name}, which its manifest names")
            _file(client, sources[name], out / name, record, progress)
    _write(out / MANIFEST, content)
    return manifest


def tell_of_no_try() -> None:
    """Let tries that fail go untold, from now on: a command tells what came of the last one."""
    stamina.instrumentation.set_on_retry_hooks(())


def unreached(error: Exception) -> str:
    """Return why a server could not be reached, without the system's number of it."""
    return _ERRNO.sub("", str(error)) or type(error).__name__


def gateway_root(base_url: str) -> str:
    """Return the gateway's origin, with the path in front of the API where there is one.

    Raises:
        FetchError: this is no base URL.
    """
    url = base_url.rstrip("/")
    if urlsplit(url).scheme not in ("http", "https"):
        raise FetchError(f"{base_url!r} is no base URL; write http(s)://host/api/openai/v1")
    return next((url.removesuffix(mount) for mount in MOUNTS if url.endswith(mount)), url)


def _sources(root: str, order_url: str, order: dict[str, Any]) -> dict[str, str | None]:
    """Return the addresses of a delivery's files by their names; None for one that is empty."""
    files = f"{root}{MOUNTS[0]}/files"
    output, errors = order.get("output_file_id"), order.get("error_file_id")
    of_batch: dict[str, str | None] = {
        OUTPUT: output and f"{files}/{output}/content",
        ERRORS: errors and f"{files}/{errors}/content",
        RECEIPTS: f"{order_url}/receipts",
    }
    try:
        listed = {
            str(file["name"]): root + str(file["url"])
            for delivery in order.get("deliveries") or ()
            for file in delivery["files"]
        }
    except (KeyError, TypeError) as error:
        raise FetchError("the gateway's list of the delivery's files cannot be read") from error
    return of_batch | listed


def _manifest(content: bytes) -> Manifest:
    try:
        manifest = Manifest.model_validate_json(content)
    except ValidationError as error:
        raise FetchError("the gateway's manifest cannot be read") from error
    if not manifest.is_signed():
        raise FetchError("the manifest's signature is not the gateway's that it names")
    return manifest


def _object(client: httpx2.Client, url: str) -> dict[str, Any]:
    try:
        value = json.loads(_small(client, url, MAX_ORDER_BYTES))
    except (ValueError, RecursionError) as error:
        raise FetchError(f"{url} did not answer with JSON; is it a gateway's base URL?") from error
    if not isinstance(value, dict):
        raise FetchError(f"{url} did not answer with an object; is it a gateway's base URL?")
    return value


def _small(client: httpx2.Client, url: str, limit: int) -> bytes:
    """Return a body of at most ``limit`` bytes."""
    pieces: list[bytes] = []

    def take(piece: bytes) -> None:
        pieces.append(piece)
        if sum(map(len, pieces)) > limit:
            raise FetchError(f"{url} answered with more than {limit} bytes")

    _download(client, url, pieces.clear, take)
    return b"".join(pieces)


def _file(
    client: httpx2.Client,
    url: str | None,
    path: Path,
    record: FileRecord,
    progress: Progress | None,
) -> None:
    """Fetch one file unless it is there, checking size and hash."""
    if not _matches(path, record):
        part = path.with_name(f"{path.name}.part")
        with part.open("wb") as file:
            done = 0

            def restart() -> None:
                nonlocal done
                file.seek(0)
                file.truncate()
                done = 0

            def take(piece: bytes) -> None:
                nonlocal done
                done += file.write(piece)
                if done > record.bytes:
                    raise FetchError(f"{path.name} is longer than the manifest says")
                if progress is not None:
                    progress(path.name, done, record.bytes)

            if url is not None:
                _download(client, url, restart, take)
        if not _matches(part, record):
            raise FetchError(f"{path.name} is not the file that the manifest names")
        part.replace(path)
    if progress is not None:
        progress(path.name, record.bytes, record.bytes)


def _matches(path: Path, record: FileRecord) -> bool:
    if not path.is_file() or path.stat().st_size != record.bytes:
        return False
    digest = sha256()
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            digest.update(piece)
    return digest.hexdigest() == record.sha256


def _write(path: Path, content: bytes) -> None:
    part = path.with_name(f"{path.name}.part")
    with part.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def _download(
    client: httpx2.Client, url: str, restart: Callable[[], object], take: Callable[[bytes], object]
) -> None:
    """Give a body to ``take`` piece by piece; ``restart`` is called before each try.

    Raises:
        FetchError: the gateway refuses, or all tries failed.
    """
    try:
        for attempt in stamina.retry_context(on=(_Passing, httpx2.TransportError), attempts=TRIES):
            with attempt:
                restart()
                with client.stream("GET", url) as answer:
                    _check_status(answer, url)
                    for piece in answer.iter_bytes(PIECE):
                        take(piece)
    except (_Passing, httpx2.HTTPError, httpx2.InvalidURL) as error:
        detail = unreached(error)
        raise FetchError(f"{url} could not be fetched: {detail}") from error


def _check_status(answer: httpx2.Response, url: str) -> None:
    status = answer.status_code
    if status == 200:
        return
    if status == 429 or status >= 500:
        raise _Passing(f"HTTP {status}")
    hints = {
        401: "the gateway does not know this API key; set RELIQUARY_API_KEY or --api-key",
        404: "no such batch or file of this account",
    }
    raise FetchError(f"{url}: HTTP {status}: {hints.get(status, 'the gateway refused')}")
