"""Byte ranges of a download (RFC 9110, section 14)."""

import re
from dataclasses import dataclass

from gateway.api.errors import RangeError

_SINGLE = re.compile(r"^bytes=[ \t]*([0-9]*)-([0-9]*)[ \t]*$", re.IGNORECASE | re.ASCII)
_MAX_DIGITS = 18


@dataclass(frozen=True)
class Span:
    """A part of a file: ``start`` inclusive, ``end`` exclusive, in bytes."""

    start: int
    end: int

    @property
    def length(self) -> int:
        """Number of bytes."""
        return self.end - self.start


def requested_span(header: str | None, if_range: str | None, etag: str, size: int) -> Span | None:
    """Return the part that a client asks for, or None for the whole file.

    A header that is malformed, names several ranges or another unit is ignored, as the RFC
    allows, and so is every range of another version of the file than ``if_range`` names.

    Raises:
        RangeError: the range is well formed and no byte of it exists.
    """
    if header is None or (if_range is not None and if_range.strip() != etag):
        return None
    match = _SINGLE.match(header.strip())
    if match is None:
        return None
    first, last = match.groups()
    if max(len(first), len(last)) > _MAX_DIGITS or not (first or last):
        return None
    if not first:
        return _suffix(int(last), size)
    start, end = int(first), int(last) + 1 if last else size
    if end <= start and last:
        return None
    if start >= size:
        raise RangeError(size)
    return Span(start, min(end, size))


def _suffix(length: int, size: int) -> Span:
    if length == 0 or size == 0:
        raise RangeError(size)
    return Span(max(0, size - length), size)
