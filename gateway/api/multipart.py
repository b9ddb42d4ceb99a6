"""One multipart upload, streamed to a file of its own with its hash while it is read.

Memory stays flat at any size, part order is free, and nothing is left of a refused upload.
"""

import asyncio
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser
from starlette.requests import ClientDisconnect, Request

from gateway.errors import GatewayError

FILENAME = re.compile(r"(?!\.)[A-Za-z0-9_.() -]{1,200}", re.ASCII)
# What boundaries, part headers and other fields may add to the file's own bytes.
MAX_OVERHEAD = 64 * 1024
MAX_FIELD_BYTES = 1_024
MAX_PARTS = 32
FLUSH_BYTES = 1024 * 1024

_PARAMETER = re.compile(
    r';[ \t]*([A-Za-z*-]+)[ \t]*=[ \t]*(?:"((?:[^"\\]|\\.)*)"|([^;" \t]+))[ \t]*', re.ASCII
)


@dataclass(frozen=True)
class Upload:
    """An uploaded file on disk: ``path`` lives until the upload is left."""

    filename: str
    path: Path
    size: int
    sha256: str


@asynccontextmanager
async def received_upload(request: Request, folder: Path, limit: int) -> AsyncIterator[Upload]:
    """Read the request's form into ``folder`` and yield its file; its path is removed on leaving.

    Args:
        folder: an existing folder for the file while it is read.
        limit: the largest file, in bytes.

    Raises:
        GatewayError: 411, 413, 415, or 400 ``invalid_file`` with the part at fault as ``param``.
    """
    _check_length(request, limit)
    form = _Form(limit)
    parser = _parser(request.headers.get("content-type", ""), form)
    path = folder / f"{uuid4().hex}.part"
    try:
        # The descriptor is written by one worker thread at a time; opening is a matter of moments.
        with path.open("xb") as file:
            await _read(request, parser, form, file)
        yield form.upload(path)
    finally:
        path.unlink(missing_ok=True)


def parameters(header: str) -> dict[str, str] | None:
    """Return the parameters of a header such as ``form-data; name="file"``, or None if malformed.

    Names are lower case; a repeated parameter makes the header malformed.
    """
    start = header.find(";")
    found: dict[str, str] = {}
    while 0 <= start < len(header):
        match = _PARAMETER.match(header, start)
        if match is None or match[1].lower() in found:
            return None
        found[match[1].lower()] = match[3] if match[2] is None else match[2]
        start = match.end()
    return found


def _check_length(request: Request, limit: int) -> None:
    length = request.headers.get("content-length")
    if length is None or not length.isdecimal():
        raise GatewayError(
            411,
            "length_required",
            "Send Content-Length: uploads in chunked encoding are refused. Give your client the "
            "file's bytes, not a stream of them (openai-node: await toFile(bytes, name)).",
        )
    if int(length) > limit + MAX_OVERHEAD:
        raise _too_large(limit)


def _parser(content_type: str, form: "_Form") -> MultipartParser:
    kind = content_type.partition(";")[0].strip().lower()
    if kind != "multipart/form-data":
        raise GatewayError(
            415, "unsupported_media_type", "Send multipart/form-data with purpose and file."
        )
    boundary = (parameters(content_type) or {}).get("boundary", "")
    if not boundary or len(boundary) > 200 or not boundary.isascii():
        raise _invalid("The Content-Type names no usable multipart boundary.", "file")
    return MultipartParser(
        boundary,
        {
            "on_part_begin": form.on_part_begin,
            "on_header_field": form.on_header_field,
            "on_header_value": form.on_header_value,
            "on_header_end": form.on_header_end,
            "on_headers_finished": form.on_headers_finished,
            "on_part_data": form.on_part_data,
            "on_part_end": form.on_part_end,
            "on_end": form.on_end,
        },
    )


async def _read(request: Request, parser: MultipartParser, form: "_Form", file: BinaryIO) -> None:
    try:
        async for chunk in request.stream():
            parser.write(chunk)
            if len(form.unwritten) >= FLUSH_BYTES:
                await asyncio.to_thread(form.flush, file)
        parser.finalize()
    except FormParserError as error:
        raise _invalid("The multipart body is malformed.", "file") from error
    except ClientDisconnect as error:
        raise _invalid("The multipart body ended early.", "file") from error
    await asyncio.to_thread(form.finish, file)


class _Form:
    """What the parser reports, kept as far as an upload needs it."""

    def __init__(self, limit: int) -> None:
        self.unwritten = bytearray()
        self._limit = limit
        self._hash = sha256()
        self._size = 0
        self._purpose: bytes | None = None
        self._filename: str | None = None
        self._parts = 0
        self._ended = False
        self._begin()

    def on_part_begin(self) -> None:
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise _invalid(f"The form has more than {MAX_PARTS} parts.", "file")
        self._begin()

    def on_header_field(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def on_header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def on_header_end(self) -> None:
        if self._header.lower() == b"content-disposition":
            self._disposition = bytes(self._value)
        self._header.clear()
        self._value.clear()

    def on_headers_finished(self) -> None:
        try:
            found = parameters(self._disposition.decode()) or {}
        except UnicodeDecodeError:
            found = {}
        self._name = found.get("name", "")
        if self._name == "file":
            self._start_file(found)
        elif self._name == "purpose":
            if self._purpose is not None:
                raise _invalid("purpose must be given once.", "purpose")
            self._purpose = b""

    def on_part_data(self, data: bytes, start: int, end: int) -> None:
        if self._name == "file":
            self._size += end - start
            if self._size > self._limit:
                raise _too_large(self._limit)
            self.unwritten += memoryview(data)[start:end]
            return
        self._field += data[start:end]
        if len(self._field) > MAX_FIELD_BYTES:
            param = "purpose" if self._name == "purpose" else None
            raise _invalid(f"A form field is longer than {MAX_FIELD_BYTES} bytes.", param)

    def on_part_end(self) -> None:
        if self._name == "purpose":
            self._purpose = bytes(self._field)

    def on_end(self) -> None:
        self._ended = True

    def flush(self, file: BinaryIO) -> None:
        """Write and hash what has gathered; runs in a worker thread while the parser rests."""
        self._hash.update(self.unwritten)
        file.write(self.unwritten)
        self.unwritten.clear()

    def finish(self, file: BinaryIO) -> None:
        """Write the rest and see it on disk."""
        self.flush(file)
        file.flush()
        os.fsync(file.fileno())

    def upload(self, path: Path) -> Upload:
        """Return the upload of a form that was read to its end.

        Raises:
            GatewayError: a part is missing or says something else than it must.
        """
        if not self._ended:
            raise _invalid("The multipart body ended early.", "file")
        if self._purpose != b"batch":
            raise _invalid('purpose must be exactly "batch".', "purpose")
        if self._filename is None:
            raise _invalid("The form has no part named file.", "file")
        if self._size == 0:
            raise _invalid("The file is empty.", "file")
        return Upload(self._filename, path, self._size, self._hash.hexdigest())

    def _begin(self) -> None:
        self._header = bytearray()
        self._value = bytearray()
        self._disposition = b""
        self._name = ""
        self._field = bytearray()

    def _start_file(self, found: dict[str, str]) -> None:
        if self._filename is not None:
            raise _invalid("The form must have exactly one part named file.", "file")
        filename = found.get("filename")
        if filename is None:
            raise _invalid("The part named file must be a file with a filename.", "file")
        if FILENAME.fullmatch(filename) is None or "filename*" in found:
            raise _invalid(
                "The filename must be 1 to 200 of A-Z a-z 0-9 _ . ( ) - and space, "
                "and must not start with a period.",
                "file",
            )
        self._filename = filename


def _invalid(message: str, param: str | None) -> GatewayError:
    return GatewayError(400, "invalid_file", message, param)


def _too_large(limit: int) -> GatewayError:
    return GatewayError(
        413,
        "file_too_large",
        f"The file is past the {limit:,} bytes that this route takes.",
        "file",
    )
