"""``/api/openai/v1/files``: upload, list, read and download."""

from typing import Annotated

from fastapi import APIRouter, Path, Request
from fastapi.responses import Response

from gateway.api.auth import Customer
from gateway.api.documented import CONTENT_ANSWERS, UPLOAD_BODY, answers, with_scope
from gateway.api.models import File, FileList
from gateway.api.state import StateOf
from gateway.api.transfers import file_object, receive, send
from gateway.files import find_file
from gateway.files import list_files as files_of
from gateway.store.tables import FilePurpose

MAX_UPLOAD_BYTES = 33_554_432
LIST_LIMIT = 100

router = APIRouter(tags=["OpenAI-compatible Batch"])

FileId = Annotated[str, Path(pattern="^[A-Za-z0-9_-]{1,80}$")]


@router.post(
    "/files",
    operation_id="openaiUploadFile",
    summary="Upload a batch file",
    responses=answers(400, 411, 413),
    openapi_extra=with_scope(UPLOAD_BODY),
)
async def upload_file(request: Request, principal: Customer, state: StateOf) -> File:
    """Keep one multipart/form-data upload of up to 32 MiB as it is."""
    return await receive(request, state, principal.account_id, MAX_UPLOAD_BYTES)


@router.get(
    "/files",
    operation_id="openaiListFiles",
    summary="List input files",
    responses=answers(),
    openapi_extra=with_scope(),
)
async def list_files(principal: Customer, state: StateOf) -> FileList:
    """Return the 100 newest input files, newest first."""
    rows, _ = await files_of(
        state.store, principal.account_id, LIST_LIMIT, purpose=FilePurpose.BATCH
    )
    return FileList(object="list", data=[file_object(row) for row in rows], has_more=False)


@router.get(
    "/files/{file_id}",
    operation_id="openaiGetFile",
    summary="Read a file",
    responses=answers(),
    openapi_extra=with_scope(),
)
async def get_file(file_id: FileId, principal: Customer, state: StateOf) -> File:
    """Return an input file, or a batch's output or error file."""
    return file_object(await find_file(state.store, principal.account_id, file_id))


@router.head("/files/{file_id}/content", include_in_schema=False)
@router.get(
    "/files/{file_id}/content",
    operation_id="openaiFileContent",
    summary="Download a file",
    response_class=Response,
    responses=CONTENT_ANSWERS | answers(409),
    openapi_extra=with_scope(),
)
async def get_content(
    file_id: FileId, request: Request, principal: Customer, state: StateOf
) -> Response:
    """Stream a file's bytes, or the range of them that was asked for."""
    return await send(request, state, principal.account_id, file_id)
