"""Objects: immutable byte strings by key, on local disk or S3.

Keys are made by the gateway alone, never from what a customer wrote. An object is written once;
what is acknowledged survives a power failure.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import obstore
from obstore.exceptions import AlreadyExistsError, NotFoundError
from obstore.store import LocalStore, S3Store
from uuid_utils.compat import uuid7

# Of a local object, what is read without a thread.
SHORT = 64 * 1024
CHUNK = 8 * 1024 * 1024
# Of a file that is copied to the local disk.
LOCAL_CHUNK = 1024 * 1024
# Bounds the memory that sending a file takes.
PARTS_AT_ONCE = 2
DRAFTS = "drafts"


class ObjectExists(Exception):
    """The key is taken; an object is never replaced."""


class ObjectMissing(Exception):
    """There is no object of this key."""


class Objects:
    """What both kinds of object store can do. Open one with ``open_objects``."""

    def __init__(self, store: Any) -> None:
        self._store = store

    async def put(self, key: str, content: bytes | Path) -> None:
        """Create an object from bytes, or from a local file without reading it into memory.

        Raises:
            ObjectExists: the key is taken.
        """
        try:
            await obstore.put_async(self._store, key, content, mode="create", use_multipart=False)
        except AlreadyExistsError as error:
            raise ObjectExists(key) from error

    async def get(self, key: str) -> bytes:
        """Return a whole object; for small ones.

        Raises:
            ObjectMissing: there is no such object.
        """
        try:
            answer = await obstore.get_async(self._store, key)
            return bytes(await answer.bytes_async())
        except (NotFoundError, FileNotFoundError) as error:
            raise ObjectMissing(key) from error

    async def get_range(self, key: str, start: int, length: int) -> bytes:
        """Return ``length`` bytes from ``start`` on, fewer at the object's end.

        Raises:
            ObjectMissing: there is no such object.
        """
        if length == 0:
            return b""
        try:
            return bytes(
                await obstore.get_range_async(self._store, key, start=start, length=length)
            )
        except (NotFoundError, FileNotFoundError) as error:
            raise ObjectMissing(key) from error

    async def stream(
        self, key: str, start: int = 0, end: int | None = None
    ) -> AsyncIterator[bytes]:
        """Yield the bytes ``[start, end)`` of an object in pieces, in flat memory.

        Raises:
            ObjectMissing: there is no such object.
        """
        stop = await self.size(key) if end is None else end
        while start < stop:
            piece = await self.get_range(key, start, min(CHUNK, stop - start))
            yield piece
            start += len(piece)

    async def size(self, key: str) -> int:
        """Return an object's size in bytes.

        Raises:
            ObjectMissing: there is no such object.
        """
        try:
            return (await obstore.head_async(self._store, key))["size"]
        except (NotFoundError, FileNotFoundError) as error:
            raise ObjectMissing(key) from error

    async def listed(self) -> AsyncIterator[list[tuple[str, int]]]:
        """Yield all objects in pages: the key, and when it was written in Unix milliseconds."""
        async for page in obstore.list(self._store):
            yield [(one["path"], int(one["last_modified"].timestamp() * 1000)) for one in page]

    async def delete(self, key: str) -> None:
        """Remove an object; one that is not there is no error."""
        try:
            await obstore.delete_async(self._store, key)
        except (NotFoundError, FileNotFoundError):
            return


class LocalObjects(Objects):
    """Objects as files under a folder.

    Written under a draft name, synced and then renamed without replacing: a power failure leaves
    either the whole object or none. The folder entry is synced too, else the name could be lost.
    """

    def __init__(self, root: Path) -> None:
        root.mkdir(parents=True, exist_ok=True)
        super().__init__(LocalStore(root))
        self._root = root

    async def put(self, key: str, content: bytes | Path) -> None:
        """Create an object (see ``Objects.put``)."""
        draft = f"{DRAFTS}/{uuid7()}"
        await obstore.put_async(
            self._store, draft, content, chunk_size=LOCAL_CHUNK, max_concurrency=PARTS_AT_ONCE
        )
        try:
            await asyncio.to_thread(_sync, self._root / draft)
            await obstore.rename_async(self._store, draft, key, overwrite=False)
        except AlreadyExistsError as error:
            await self.delete(draft)
            raise ObjectExists(key) from error
        await asyncio.to_thread(_sync_folders, self._root / key, self._root)

    async def get_range(self, key: str, start: int, length: int) -> bytes:
        """Return a part of an object (see ``Objects.get_range``); a short one is read on the spot.

        A thread takes longer to be asked for it than the page cache to give it.
        """
        if length > SHORT:
            return await super().get_range(key, start, length)
        try:
            descriptor = os.open(self._root / key, os.O_RDONLY)
        except FileNotFoundError as error:
            raise ObjectMissing(key) from error
        try:
            return os.pread(descriptor, length, start)
        finally:
            os.close(descriptor)


class S3Objects(Objects):
    """Objects in a bucket. A file is sent in parts, which S3 can not make conditional.

    So the key is looked up first: the keys of files are named by an id of their own, where a race
    of two writers can only be one writer's retry with the same bytes.
    """

    async def put(self, key: str, content: bytes | Path) -> None:
        """Create an object (see ``Objects.put``)."""
        if isinstance(content, bytes):
            await super().put(key, content)
            return
        try:
            await self.size(key)
        except ObjectMissing:
            await obstore.put_async(
                self._store,
                key,
                content,
                use_multipart=True,
                chunk_size=CHUNK,
                max_concurrency=PARTS_AT_ONCE,
            )
            return
        raise ObjectExists(key)


def open_objects(url: str, options: dict[str, str] | None = None) -> Objects:
    """Open the object store at ``url``.

    Args:
        url: ``file:///FOLDER`` or ``s3://BUCKET/PREFIX``.
        options: S3 settings by obstore's names, such as ``endpoint``, ``region``, ``access_key_id``
            and ``secret_access_key``; what is left out is read from the AWS environment.

    Raises:
        ValueError: the URL is neither.
    """
    scheme, _, place = url.partition("://")
    if scheme == "file" and place.startswith("/"):
        return LocalObjects(Path(place))
    if scheme == "s3" and place:
        bucket, _, prefix = place.partition("/")
        config: Any = {
            "client_options": {"timeout": "10m", "allow_http": True},
            **(options or {}),
        }
        return S3Objects(S3Store(bucket, prefix=prefix or None, **config))
    raise ValueError(f"objects are kept at file:///FOLDER or s3://BUCKET/PREFIX, not {url!r}")


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_folders(path: Path, root: Path) -> None:
    for folder in path.parents:
        _sync(folder)
        if folder == root:
            return
