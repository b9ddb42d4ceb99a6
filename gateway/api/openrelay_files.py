"""``/v1/files``: upload, list, read, download and delete."""

from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import Response
from pydantic import BeforeValidator, Field

from gateway.api.auth import OpenRelayCustomer
from gateway.api.documented import CONTENT_ANSWERS, UPLOAD_BODY, answers, with_scope
from gateway.api.models import File
from gateway.api.openai_files import FileId
from gateway.api.openrelay_objects import DeletedFile, FilePage, page_ends
from gateway.api.requests import Cursor, given_once, only_digits
from gateway.api.state import StateOf
from gateway.api.transfers import file_object, receive, send
from gateway.files import delete_file as remove_file
from gateway.files import find_file
from gateway.files import list_files as files_of
from gateway.store.tables import FilePurpose

MAX_UPLOAD_BYTES = 209_715_200
MAX_PAGE = 10_000

router = APIRouter(tags=["Files"])

FilePageLimit = Annotated[int, Field(ge=1, le=MAX_PAGE), BeforeValidator(only_digits), Query()]


@router.post(
    "/files",
    operation_id="uploadFile",
    summary="Upload a file",
    responses=answers(400, 411, 413, 429),
    openapi_extra=with_scope(UPLOAD_BODY),
)
async def upload_file(request: Request, principal: OpenRelayCustomer, state: StateOf) -> File:
    """Keep one multipart/form-data upload of up to 200 MiB as it is."""
    return await receive(request, state, principal.account_id, MAX_UPLOAD_BYTES)


@router.get(
    "/files",
    operation_id="listFiles",
    summary="List files",
    responses=answers(400),
    openapi_extra=with_scope(),
    dependencies=[Depends(given_once("limit", "after", "order", "purpose"))],
)
async def list_files(
    principal: OpenRelayCustomer,
    state: StateOf,
    limit: FilePageLimit = MAX_PAGE,
    after: Cursor = None,
    order: Literal["asc", "desc"] = "desc",
    purpose: FilePurpose | None = None,
) -> FilePage:
    """Return a page of files, uploaded and delivered ones, in the order of their creation."""
    rows, has_more = await files_of(
        state.store,
        principal.account_id,
        limit,
        purpose=purpose,
        after=after,
        oldest_first=order == "asc",
    )
    ends = page_ends([row.id for row in rows])
    data = [file_object(row) for row in rows]
    return FilePage(object="list", data=data, has_more=has_more, **ends)


@router.get(
    "/files/{file_id}",
    operation_id="getFile",
    summary="Read a file",
    responses=answers(),
    openapi_extra=with_scope(),
)
async def get_file(file_id: FileId, principal: OpenRelayCustomer, state: StateOf) -> File:
    """Return an input file, or a batch's output or error file."""
    return file_object(await find_file(state.store, principal.account_id, file_id))


@router.delete(
    "/files/{file_id}",
    operation_id="deleteFile",
    summary="Delete a file",
    responses=answers(409),
    openapi_extra=with_scope(),
)
async def delete_file(file_id: FileId, principal: OpenRelayCustomer, state: StateOf) -> DeletedFile:
    """Delete a file, which no open batch may read."""
    await remove_file(state.store, principal.account_id, file_id, state.now_ms())
    return DeletedFile(id=file_id, object="file", deleted=True)


@router.head("/files/{file_id}/content", include_in_schema=False)
@router.get(
    "/files/{file_id}/content",
    operation_id="fileContent",
    summary="Download a file",
    response_class=Response,
    responses=CONTENT_ANSWERS | answers(),
    openapi_extra=with_scope(),
)
async def get_content(
    file_id: FileId, request: Request, principal: OpenRelayCustomer, state: StateOf
) -> Response:
    """Stream a file's bytes, or the range of them that was asked for."""
    return await send(request, state, principal.account_id, file_id)
