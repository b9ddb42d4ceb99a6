"""``/api/v1/files``: uploads in parts, and the account's files."""

import asyncio
import re
from collections.abc import Sequence
from hashlib import file_digest
from pathlib import Path
from typing import Annotated, Literal
from uuid import uuid4

from fastapi import APIRouter, Depends, Request
from fastapi import Path as InPath
from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field

from gateway import uploads
from gateway.api.auth import Customer
from gateway.api.models import UUID, ContractObject, Seconds
from gateway.api.native_bodies import Body, documented_body, read_body
from gateway.api.native_documented import FILES, documented
from gateway.api.plain import must_be
from gateway.api.requests import Cursor, PageLimit, given_once, only_digits, received_body
from gateway.api.state import StateOf
from gateway.api.transfers import file_object
from gateway.errors import GatewayError
from gateway.files import delete_file, find_file, list_files
from gateway.store.tables import File, FilePurpose, UploadPart

router = APIRouter(tags=[FILES])

FileId = Annotated[str, InPath(pattern="^[A-Za-z0-9_-]{1,80}$")]
PartNumber = Annotated[
    int,
    Field(ge=1, le=10_000),
    BeforeValidator(only_digits),
    InPath(description="From 1."),
]

_NAME = re.compile(r"[A-Za-z0-9_() -][A-Za-z0-9_.() -]{0,199}", re.ASCII)
_SHA256 = re.compile("[0-9a-fA-F]{64}", re.ASCII)
_EXAMPLE_ID = "file-01a22870-0000-7000-8000-000000000001"
_EXAMPLE_SHA256 = "3b6faf0c133e583ac45074eb95c07794abda62841b0f234b3f79ed02d4e639b4"


class BeginUpload(Body):
    """The file that is to come."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"filename": "batch.jsonl", "bytes": 20_000_000, "purpose": "batch"}]
        }
    )

    filename: Annotated[
        str,
        AfterValidator(
            must_be("1 to 200 of A-Z a-z 0-9 _ . ( ) - and spaces, no point first", _NAME.fullmatch)
        ),
        Field(json_schema_extra={"pattern": f"^{_NAME.pattern}$"}),
    ]
    bytes: Annotated[
        int, Field(ge=1, strict=True, json_schema_extra={"maximum": uploads.MAX_UPLOAD_BYTES})
    ]
    purpose: Literal["batch"]


class Uploading(ContractObject):
    """How far an upload is; ``received`` are the numbers of the parts that have arrived."""

    part_size: Annotated[int, Field(ge=1, description="Of every part but the last, in bytes.")]
    parts: Annotated[int, Field(ge=1)]
    received: list[int]
    expires_at: Annotated[
        int, Field(description="Unix seconds; the upload is given up then. Each part puts it off.")
    ]


class NativeFile(ContractObject):
    """A file; ``sha256`` and ``upload`` are null where they have no meaning (yet)."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "id": _EXAMPLE_ID,
                    "object": "file",
                    "bytes": 20_000_000,
                    "created_at": 1_762_685_000,
                    "filename": "batch.jsonl",
                    "purpose": "batch",
                    "status": "uploading",
                    "sha256": None,
                    "upload": {
                        "part_size": uploads.PART_BYTES,
                        "parts": 3,
                        "received": [1],
                        "expires_at": 1_762_771_400,
                    },
                }
            ]
        },
    )

    id: Annotated[str, Field(pattern=rf"^file-(?:(?:out|err)-)?{UUID}$")]
    object: Literal["file"]
    bytes: Annotated[int, Field(ge=0)]
    created_at: Seconds
    filename: str
    purpose: Literal["batch", "batch_output"]
    status: Literal["uploading", "processed"]
    sha256: str | None
    upload: Uploading | None


class NativeFileList(ContractObject):
    """A page of files, newest first."""

    object: Literal["list"]
    data: list[NativeFile]
    first_id: str | None
    last_id: str | None
    has_more: bool


class Part(ContractObject):
    """A part that is kept."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "object": "file.part",
                    "file_id": _EXAMPLE_ID,
                    "part_number": 1,
                    "bytes": uploads.PART_BYTES,
                    "sha256": _EXAMPLE_SHA256,
                }
            ]
        },
    )

    object: Literal["file.part"]
    file_id: str
    part_number: int
    bytes: int
    sha256: str


class Deleted(ContractObject):
    """What is left to say of a file that was deleted."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"id": _EXAMPLE_ID, "object": "file", "deleted": True}]},
    )

    id: str
    object: Literal["file"]
    deleted: Literal[True]


@router.post(
    "/files",
    summary="Start an upload",
    **documented(400, 413, 415, 429, extra=documented_body(BeginUpload)),
)
async def begin_upload(request: Request, principal: Customer, state: StateOf) -> NativeFile:
    """Announce a file of up to 200 MiB; its parts may then come in any order."""
    invalid = (400, "invalid_file")
    wanted = await read_body(
        request, BeginUpload, {"filename": invalid, "bytes": invalid, "purpose": invalid}
    )
    if wanted.bytes > uploads.MAX_UPLOAD_BYTES:
        message = f"A file has at most {uploads.MAX_UPLOAD_BYTES:,} bytes."
        raise GatewayError(413, "file_too_large", message, "bytes")
    row = await uploads.begin(
        state.store,
        principal.account_id,
        wanted.filename,
        wanted.bytes,
        state.settings.uploads_at_once,
        state.now_ms(),
    )
    return _shown(row, [])


@router.put(
    "/files/{file_id}/parts/{part_number}",
    summary="Send a part",
    **documented(
        400,
        409,
        413,
        429,
        extra={
            "parameters": [
                {
                    "name": "X-Part-Sha256",
                    "in": "header",
                    "required": False,
                    "description": "SHA-256 of the part in hex; a part that differs is refused.",
                    "schema": {"type": "string", "pattern": "^[0-9a-fA-F]{64}$"},
                }
            ],
            "requestBody": {
                "required": True,
                "content": {
                    "application/octet-stream": {
                        "schema": {
                            "type": "string",
                            "contentMediaType": "application/octet-stream",
                        }
                    }
                },
            },
        },
    ),
)
async def put_part(
    file_id: FileId, part_number: PartNumber, request: Request, principal: Customer, state: StateOf
) -> Part:
    """Keep the raw bytes of a part; one that is sent again takes the place of the one before.

    Every part but the last has exactly ``part_size`` bytes.
    """
    expected = _expected_sha256(request.headers.getlist("x-part-sha256"))
    account_id, store = principal.account_id, state.store
    due = await uploads.expect_part(store, account_id, file_id, part_number)
    path = state.settings.incoming / f"{uuid4().hex}.part"
    with state.uploads.enter(account_id):
        try:
            size = await received_body(request, path)
            digest = await asyncio.to_thread(_sha256_of, path)
            _check_part(part_number, size, due, digest, expected)
            now_ms = state.now_ms()
            part = await uploads.keep_part(store, file_id, part_number, path, size, digest, now_ms)
        finally:
            path.unlink(missing_ok=True)
    return Part(
        object="file.part",
        file_id=file_id,
        part_number=part.number,
        bytes=part.bytes,
        sha256=part.sha256,
    )


@router.post("/files/{file_id}/complete", summary="Complete an upload", **documented(409, 429))
async def complete_upload(file_id: FileId, principal: Customer, state: StateOf) -> NativeFile:
    """Put a file together once all its parts are there; a repeat returns the same file."""
    with state.uploads.enter(principal.account_id):
        row = await uploads.complete(
            state.store, principal.account_id, file_id, state.settings.incoming, state.now_ms()
        )
    return _shown(row, [])


@router.get(
    "/files",
    summary="List input files",
    dependencies=[Depends(given_once("limit", "after"))],
    **documented(400),
)
async def list_input_files(
    principal: Customer, state: StateOf, limit: PageLimit = 20, after: Cursor = None
) -> NativeFileList:
    """Return a page of the input files of every API, newest first."""
    rows, has_more = await list_files(
        state.store, principal.account_id, limit, purpose=FilePurpose.BATCH, after=after
    )
    data = [await _whole(state, row) for row in rows]
    return NativeFileList(
        object="list",
        data=data,
        first_id=data[0].id if data else None,
        last_id=data[-1].id if data else None,
        has_more=has_more,
    )


@router.get("/files/{file_id}", summary="Read a file", **documented())
async def get_file(file_id: FileId, principal: Customer, state: StateOf) -> NativeFile:
    """Return a file, with the parts that have arrived while it is uploaded."""
    return await _whole(state, await find_file(state.store, principal.account_id, file_id))


@router.delete("/files/{file_id}", summary="Delete a file or give an upload up", **documented(409))
async def remove_file(file_id: FileId, principal: Customer, state: StateOf) -> Deleted:
    """Delete a file, which no open order may read."""
    await delete_file(state.store, principal.account_id, file_id, state.now_ms())
    return Deleted(id=file_id, object="file", deleted=True)


async def _whole(state: StateOf, row: File) -> NativeFile:
    parts = []
    if row.uploading_until_ms is not None:
        parts = await uploads.parts_of(state.store, row.id)
    return _shown(row, parts)


def _shown(row: File, parts: Sequence[UploadPart]) -> NativeFile:
    shared = file_object(row).model_dump(exclude={"sha256", "upload"})
    return NativeFile(
        **shared,
        sha256=row.sha256 if row.uploading_until_ms is None else None,
        upload=None
        if row.uploading_until_ms is None
        else Uploading(
            part_size=uploads.PART_BYTES,
            parts=uploads.part_count(row.bytes),
            received=[part.number for part in parts],
            expires_at=row.uploading_until_ms // 1000,
        ),
    )


def _expected_sha256(values: list[str]) -> str | None:
    """Return what the part must hash to by its header, or None.

    Raises:
        GatewayError: 400 ``invalid_request``.
    """
    if not values:
        return None
    if len(values) > 1 or _SHA256.fullmatch(values[0]) is None:
        raise GatewayError(
            400,
            "invalid_request",
            "X-Part-Sha256 must be the 64 hex digits of the part's SHA-256, sent once.",
            "X-Part-Sha256",
        )
    return values[0].lower()


def _check_part(number: int, size: int, due: int, digest: str, expected: str | None) -> None:
    if size != due:
        message = f"Part {number} has {size:,} bytes; it must have exactly {due:,}."
        raise GatewayError(400, "invalid_part", message, "part_number")
    if expected is not None and digest != expected:
        raise GatewayError(
            400,
            "part_sha256_mismatch",
            f"The SHA-256 of what arrived of part {number} is {digest}; send it again.",
            "X-Part-Sha256",
        )


def _sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()
