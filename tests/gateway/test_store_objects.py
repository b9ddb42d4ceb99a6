"""The object store over local disk and an S3 server."""

import os
from pathlib import Path

import pytest

from gateway.store import objects as objects_module
from gateway.store.objects import ObjectExists, ObjectMissing, Objects, open_objects

MEBIBYTE = 1024 * 1024


async def test_bytes_come_back(objects: Objects):
    await objects.put("orders/1/a", b"hello")
    assert await objects.get("orders/1/a") == b"hello"
    assert await objects.size("orders/1/a") == 5
    assert await objects.get_range("orders/1/a", 1, 3) == b"ell"
    assert await objects.get_range("orders/1/a", 3, 30) == b"lo"
    assert await objects.get_range("orders/1/a", 3, 0) == b""


@pytest.mark.parametrize("as_file", [False, True])
async def test_an_object_is_never_replaced(objects: Objects, tmp_path: Path, as_file: bool):
    def content(data: bytes) -> bytes | Path:
        if not as_file:
            return data
        (tmp_path / "source").write_bytes(data)
        return tmp_path / "source"

    await objects.put("a/b", content(b"first"))
    with pytest.raises(ObjectExists):
        await objects.put("a/b", content(b"second"))
    assert await objects.get("a/b") == b"first"


async def test_a_file_of_many_parts(objects: Objects, tmp_path: Path):
    data = os.urandom(20 * MEBIBYTE + 3)
    (tmp_path / "source").write_bytes(data)
    await objects.put("big", tmp_path / "source")
    pieces = [piece async for piece in objects.stream("big")]
    assert len(pieces) > 1 and b"".join(pieces) == data
    part = b"".join([piece async for piece in objects.stream("big", 7, 9 * MEBIBYTE)])
    assert part == data[7 : 9 * MEBIBYTE]


async def test_an_empty_object(objects: Objects, tmp_path: Path):
    (tmp_path / "source").write_bytes(b"")
    await objects.put("empty", b"")
    await objects.put("empty-file", tmp_path / "source")
    for key in ("empty", "empty-file"):
        assert await objects.get(key) == b""
        assert [piece async for piece in objects.stream(key)] == []


async def test_what_is_not_there(objects: Objects):
    for call in (objects.get("x"), objects.size("x"), objects.get_range("x", 0, 1)):
        with pytest.raises(ObjectMissing):
            await call
    await objects.delete("x")


async def test_a_deleted_object_is_gone(objects: Objects):
    await objects.put("a/b", b"x")
    await objects.delete("a/b")
    with pytest.raises(ObjectMissing):
        await objects.get("a/b")


async def test_local_objects_are_synced_before_they_are_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    synced: list[str] = []
    real = os.fsync

    def record(descriptor: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        real(descriptor)

    monkeypatch.setattr(objects_module.os, "fsync", record)
    root = tmp_path / "objects"
    await open_objects(f"file://{root}").put("orders/1/a", b"x")
    assert synced[0].startswith(str(root / "drafts"))
    assert synced[1:] == [str(root / "orders/1"), str(root / "orders"), str(root)]
    assert list((root / "drafts").iterdir()) == []


@pytest.mark.parametrize("url", ["http://x", "file://relative", "s3://", "/folder"])
def test_other_places_are_refused(url: str):
    with pytest.raises(ValueError, match="file:///FOLDER"):
        open_objects(url)
