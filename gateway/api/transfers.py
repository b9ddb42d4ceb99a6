"""Receiving and sending files: what the routes of every dialect share."""

from collections.abc import Sequence
from typing import Any

from fastapi import Request
from fastapi.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from gateway.api.models import File as FileObject
from gateway.api.models import UploadProgress
from gateway.api.multipart import received_upload
from gateway.api.ranges import requested_span
from gateway.api.rates import AtOnce
from gateway.api.state import State
from gateway.files import Segment, check_ready, find_file, keep_upload, pieces_of, segments_of
from gateway.store.tables import File, FilePurpose
from gateway.uploads import PART_BYTES, part_count

JSONL, BINARY = "application/jsonl", "application/octet-stream"


async def receive(request: Request, state: State, account_id: str, limit: int) -> FileObject:
    """Keep a multipart upload of at most ``limit`` bytes as an input file.

    Raises:
        GatewayError: 400, 411, 413, 415; 429 for too many uploads at once.
    """
    folder = state.settings.incoming
    with state.uploads.enter(account_id):
        async with received_upload(request, folder, limit) as upload:
            row = await keep_upload(
                state.store,
                account_id,
                upload.path,
                filename=upload.filename,
                size=upload.size,
                sha256=upload.sha256,
                now_ms=state.now_ms(),
            )
    return file_object(row)


class Download(StreamingResponse):
    """A file's bytes as an answer, counted among its account's downloads while it is sent."""

    def __init__(self, downloads: AtOnce, account_id: str, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._downloads = downloads
        self._account_id = account_id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer.

        Raises:
            GatewayError: 429 for too many downloads at once.
        """
        with self._downloads.enter(self._account_id):
            await super().__call__(scope, receive, send)


async def send(request: Request, state: State, account_id: str, file_id: str) -> Response:
    """Stream a file's bytes, or the range of them that was asked for.

    Raises:
        GatewayError: 404, 409 for a file still uploaded in parts, or 416 for a range beyond the
            file; the answer's own 429.
    """
    row = await find_file(state.store, account_id, file_id)
    check_ready(row)
    return send_object(
        request,
        state,
        account_id,
        segments=await segments_of(state.store, row),
        # Content never changes once it can be read, so the id is as good a validator as a hash.
        etag=f'"{row.id}"',
        filename=row.filename,
        media_type=JSONL if row.purpose == FilePurpose.BATCH_OUTPUT else BINARY,
    )


def send_object(
    request: Request,
    state: State,
    account_id: str,
    *,
    segments: Sequence[Segment],
    etag: str,
    filename: str,
    media_type: str,
) -> Response:
    """Stream the bytes of objects, one after another, or the range of them that was asked for.

    Args:
        account_id: among whose downloads it counts.
        media_type: of the whole; a range is no document of its own.

    Raises:
        GatewayError: 416 for a range beyond all of them; the answer's own 429.
    """
    size = sum(length for _, length in segments)
    span = requested_span(request.headers.get("range"), request.headers.get("if-range"), etag, size)
    headers = {
        "Accept-Ranges": "bytes",
        "Content-Disposition": f'attachment; filename="{filename}"',
        "Content-Length": str(size if span is None else span.length),
        "ETag": etag,
        "X-Content-Type-Options": "nosniff",
    }
    if span is not None:
        headers["Content-Range"] = f"bytes {span.start}-{span.end - 1}/{size}"
        media_type = BINARY
    status = 200 if span is None else 206
    if request.method == "HEAD":
        return Response(status_code=status, headers=headers, media_type=media_type)
    start, end = (0, size) if span is None else (span.start, span.end)
    return Download(
        state.downloads,
        account_id,
        pieces_of(state.store, segments, start, end),
        status,
        headers=headers,
        media_type=media_type,
    )


def file_object(row: File) -> FileObject:
    """Return the contract's object of a file.

    Output and error files have no ``sha256``, nor has a file that is still uploaded.
    """
    is_input = row.purpose == FilePurpose.BATCH
    uploading = row.uploading_until_ms is not None
    return FileObject(
        id=row.id,
        object="file",
        bytes=row.bytes,
        created_at=row.created_at_ms // 1000,
        filename=row.filename,
        purpose="batch" if is_input else "batch_output",
        status="uploading" if uploading else "processed",
        sha256=row.sha256 if is_input and not uploading else None,
        upload=UploadProgress(part_size=PART_BYTES, parts=part_count(row.bytes))
        if uploading
        else None,
    )
