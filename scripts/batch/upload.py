"""Uploading an input file in parts; what has arrived already is not sent again."""

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

from scripts.batch.gateway import LONG_TIMEOUT_S, BatchError, Gateway

MAX_BYTES = 209_715_200
PIECE = 1024 * 1024
_SAFE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.() -")

Progress = Callable[[int, int], None]
"""Called with the bytes that are done and those in all."""


def hash_of(path: Path) -> str:
    """Return the SHA-256 (hex) of an input file.

    Raises:
        BatchError: it is empty or too large.
        OSError: it cannot be read.
    """
    size = path.stat().st_size
    if size == 0:
        raise BatchError(f"{path} is empty")
    if size > MAX_BYTES:
        raise BatchError(f"{path} has {size:,} bytes; at most {MAX_BYTES:,} are allowed")
    digest = sha256()
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            digest.update(piece)
    return digest.hexdigest()


def begin(gateway: Gateway, path: Path) -> str:
    """Announce a file and return its id."""
    name = "".join(letter if letter in _SAFE else "_" for letter in path.name)[:200].lstrip(".")
    body = {"filename": name or "batch.jsonl", "bytes": path.stat().st_size, "purpose": "batch"}
    return str(gateway.call("POST", "/files", body=body)["id"])


def send(gateway: Gateway, file_id: str, path: Path, progress: Progress) -> None:
    """Send what is missing of a file and complete it.

    Raises:
        BatchError: ``file_not_found`` where the upload was given up meanwhile.
    """
    shown = gateway.get(f"/files/{file_id}")
    total = path.stat().st_size
    if shown["status"] == "uploading":
        _send_parts(gateway, file_id, path, shown["upload"], total, progress)
        gateway.call("POST", f"/files/{file_id}/complete", timeout_s=LONG_TIMEOUT_S)
    progress(total, total)


def _send_parts(
    gateway: Gateway,
    file_id: str,
    path: Path,
    upload: dict[str, Any],
    total: int,
    progress: Progress,
) -> None:
    part_size, received = upload["part_size"], set(upload["received"])
    with path.open("rb") as file:
        for number in range(1, upload["parts"] + 1):
            content = file.read(part_size)
            if number not in received:
                gateway.call(
                    "PUT",
                    f"/files/{file_id}/parts/{number}",
                    content=content,
                    headers={"X-Part-Sha256": sha256(content).hexdigest()},
                )
            progress(min(number * part_size, total), total)
