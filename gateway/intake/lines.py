"""The physical lines of an input file, read as a stream in bounded memory."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

MAX_FILE_BYTES = 200 * 1024 * 1024
MAX_LINES = 50_000
MAX_LINE_BYTES = 4 * 1024 * 1024

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_WHITE_SPACE = b" \t\r\n"
_SKIP_BYTES = 64 * 1024
_BUFFER_BYTES = 128 * 1024


@dataclass(frozen=True, slots=True)
class Line:
    """A line that is not blank: its physical number from 1, and its bytes.

    ``data`` has no white space around it; it is None where the line is over ``MAX_LINE_BYTES``.
    """

    number: int
    data: bytes | None


def read_lines(path: Path) -> Iterator[Line]:
    """The lines of a file that are not blank, in order.

    Only ``\\n`` separates lines; a ``\\r`` before it belongs to the white space around a line. A
    byte-order mark at the very start of the file is skipped.

    Raises:
        OSError: the file cannot be read.
    """
    with path.open("rb", buffering=_BUFFER_BYTES) as file:
        if file.read(len(_BYTE_ORDER_MARK)) != _BYTE_ORDER_MARK:
            file.seek(0)
        number = 0
        while raw := file.readline(MAX_LINE_BYTES + 2):
            number += 1
            whole = raw.endswith(b"\n") or len(raw) < MAX_LINE_BYTES + 2
            data = raw.strip(_WHITE_SPACE)
            blank = not data
            if not whole:
                blank = _skip_rest(file) and blank
            if not blank:
                yield Line(number, data if whole and len(data) <= MAX_LINE_BYTES else None)


def count_lines(path: Path, limit: int = MAX_LINES) -> int:
    """Count the lines that are not blank; stops at ``limit + 1``."""
    count = 0
    for _ in read_lines(path):
        count += 1
        if count > limit:
            break
    return count


def _skip_rest(file: BinaryIO) -> bool:
    """Read on to the line's end; True where nothing but white space was left."""
    blank = True
    while piece := file.readline(_SKIP_BYTES):
        blank = blank and not piece.strip(_WHITE_SPACE)
        if piece.endswith(b"\n"):
            break
    return blank
