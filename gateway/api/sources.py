"""The two inputs of an order: a file that was uploaded, or requests in the create body."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from uuid import uuid4

from fastapi import Request

from gateway.api.requests import check_json, received_body
from gateway.api.state import State
from gateway.errors import GatewayError
from gateway.files import delete_file, find_input, keep_upload, on_local_disk
from gateway.intake.inline import SplitBody, split_requests, write_lines
from gateway.intake.pool import accepted

INLINE_FILENAME = "requests.jsonl"
# Larger bodies are taken apart in an intake process, so that other requests go on.
SMALL_BODY_BYTES = 256 * 1024


@dataclass(frozen=True)
class Input:
    """An order's input on the local disk; ``sha256`` in hex."""

    path: Path
    size: int
    sha256: str


class Source(Protocol):
    """Where an order's input comes from."""

    def on_disk(self) -> AbstractAsyncContextManager[Input]:
        """Give the input; ``GatewayError`` 404 where there is none."""
        ...

    def as_file(self, found: Input) -> AbstractAsyncContextManager[str]:
        """Give the id of the input's file; where placing then fails, nothing new stays."""
        ...


@dataclass(frozen=True)
class UploadedFile:
    """A file of the account, by its id."""

    state: State
    account_id: str
    file_id: str

    @asynccontextmanager
    async def on_disk(self) -> AsyncIterator[Input]:
        """Give the file on the local disk.

        Raises:
            GatewayError: 404 ``file_not_found``.
        """
        store = self.state.store
        row = await find_input(store, self.account_id, self.file_id)
        async with on_local_disk(store, row, self.state.settings.incoming) as path:
            yield Input(path, row.bytes, row.sha256)

    @asynccontextmanager
    async def as_file(self, found: Input) -> AsyncIterator[str]:
        """Give the file's id."""
        yield self.file_id


@dataclass(frozen=True)
class InlineRequests:
    """The requests of a create body, one a line in ``items`` as ``split_requests`` wrote them."""

    state: State
    account_id: str
    items: Path
    endpoint: str

    @asynccontextmanager
    async def on_disk(self) -> AsyncIterator[Input]:
        """Give the requests as an input file on the local disk."""
        path = self.items.with_suffix(".input")
        try:
            written = await asyncio.to_thread(write_lines, self.items, path, self.endpoint)
            yield Input(path, *written)
        finally:
            path.unlink(missing_ok=True)

    @asynccontextmanager
    async def as_file(self, found: Input) -> AsyncIterator[str]:
        """Keep the input as a file of the account; what fails inside deletes it again."""
        store, now_ms = self.state.store, self.state.now_ms()
        row = await keep_upload(
            store,
            self.account_id,
            found.path,
            filename=INLINE_FILENAME,
            size=found.size,
            sha256=found.sha256,
            now_ms=now_ms,
        )
        try:
            yield row.id
        except GatewayError:
            await delete_file(store, self.account_id, row.id, now_ms)
            raise


@asynccontextmanager
async def received_create(
    request: Request, state: State, account_id: str
) -> AsyncIterator[tuple[SplitBody, Path]]:
    """Read a create body that may carry its requests; yield the rest of it, and their file.

    Raises:
        GatewayError: 400, 413, 415; 429 for too many uploads at once.
    """
    check_json(request)
    stem = state.settings.incoming / uuid4().hex
    body, items = stem.with_suffix(".body"), stem.with_suffix(".items")
    try:
        with state.uploads.enter(account_id):
            size = await received_body(request, body)
        if size <= SMALL_BODY_BYTES:
            split = accepted(await asyncio.to_thread(split_requests, body, items))
        else:
            split = await state.intake.split_requests(body, items)
        body.unlink()
        yield split, items
    finally:
        body.unlink(missing_ok=True)
        items.unlink(missing_ok=True)
