"""``/api/openai/v1/files``: upload, list, read and download."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from fastapi.responses import Response, StreamingResponse

from gateway.api.auth import Customer
from gateway.api.documented import UPLOAD_BODY, answers, with_scope
from gateway.api.models import File as FileObject
from gateway.api.models import FileList
from gateway.api.multipart import received_upload
from gateway.api.ranges import requested_span
from gateway.api.state import State, StateOf
from gateway.files import find_file, keep_upload, list_inputs, pieces
from gateway.store.tables import File, FilePurpose

MAX_UPLOAD_BYTES = 33_554_432

router = APIRouter(tags=["OpenAI-compatible Batch"])

FileId = Annotated[str, Path(pattern="^[A-Za-z0-9_-]{1,80}$")]


@router.post(
    "/files",
    operation_id="openaiUploadFile",
    summary="Upload a batch file",
    responses=answers(400, 411, 413),
    openapi_extra=with_scope(UPLOAD_BODY),
)
async def upload_file(request: Request, principal: Customer, state: StateOf) -> FileObject:
    """Keep one multipart/form-data upload of up to 32 MiB as it is."""
    async with received_upload(request, state.settings.incoming, MAX_UPLOAD_BYTES) as upload:
        row = await keep_upload(
            state.store,
            principal.account_id,
            upload.path,
            filename=upload.filename,
            size=upload.size,
            sha256=upload.sha256,
            now_ms=state.now_ms(),
        )
    return file_object(row)


@router.get(
    "/files",
    operation_id="openaiListFiles",
    summary="List input files",
    responses=answers(),
    openapi_extra=with_scope(),
)
async def list_files(principal: Customer, state: StateOf) -> FileList:
    """Return the 100 newest input files, newest first."""
    rows = await list_inputs(state.store, principal.account_id)
    return FileList(object="list", data=[file_object(row) for row in rows], has_more=False)


@router.get(
    "/files/{file_id}",
    operation_id="openaiGetFile",
    summary="Read a file",
    responses=answers(),
    openapi_extra=with_scope(),
)
async def get_file(file_id: FileId, principal: Customer, state: StateOf) -> FileObject:
    """Return an input file, or a batch's output or error file."""
    return file_object(await find_file(state.store, principal.account_id, file_id))


_CONTENT_ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "File bytes.",
        "content": {
            "application/jsonl": {"schema": {"type": "string"}},
            "application/octet-stream": {
                "schema": {"type": "string", "contentMediaType": "application/octet-stream"}
            },
        },
    },
    206: {
        "description": "A byte range of a file.",
        "headers": {"Content-Range": {"schema": {"type": "string"}}},
        "content": {
            "application/octet-stream": {
                "schema": {"type": "string", "contentMediaType": "application/octet-stream"}
            }
        },
    },
}


@router.head("/files/{file_id}/content", include_in_schema=False)
@router.get(
    "/files/{file_id}/content",
    operation_id="openaiFileContent",
    summary="Download a file",
    response_class=Response,
    responses=_CONTENT_ANSWERS | answers(409),
    openapi_extra=with_scope(),
)
async def get_content(
    file_id: FileId, request: Request, principal: Customer, state: StateOf
) -> Response:
    """Stream a file's bytes, or the range of them that was asked for."""
    row = await find_file(state.store, principal.account_id, file_id)
    return _download(request, state, row)


def _download(request: Request, state: State, row: File) -> Response:
    # Content never changes once it can be read, so the id is as good a validator as a hash.
    etag = f'"{row.id}"'
    span = requested_span(
        request.headers.get("range"), request.headers.get("if-range"), etag, row.bytes
    )
    headers = {
        "Accept-Ranges": "bytes",
        "Content-Disposition": f'attachment; filename="{row.filename}"',
        "Content-Length": str(row.bytes if span is None else span.length),
        "ETag": etag,
        "X-Content-Type-Options": "nosniff",
    }
    output = row.purpose == FilePurpose.BATCH_OUTPUT
    media_type = "application/jsonl" if output and span is None else "application/octet-stream"
    if span is not None:
        headers["Content-Range"] = f"bytes {span.start}-{span.end - 1}/{row.bytes}"
    if request.method == "HEAD":
        return Response(
            status_code=200 if span is None else 206, headers=headers, media_type=media_type
        )
    start, end = (0, row.bytes) if span is None else (span.start, span.end)
    return StreamingResponse(
        pieces(state.store, row.object_key, start, end),
        200 if span is None else 206,
        headers=headers,
        media_type=media_type,
    )


def file_object(row: File) -> FileObject:
    """Return the contract's object of a file; output and error files have no ``sha256``."""
    is_input = row.purpose == FilePurpose.BATCH
    return FileObject(
        id=row.id,
        object="file",
        bytes=row.bytes,
        created_at=row.created_at_ms // 1000,
        filename=row.filename,
        purpose="batch" if is_input else "batch_output",
        status="processed",
        sha256=row.sha256 if is_input else None,
    )
