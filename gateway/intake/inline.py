"""A create body that carries its requests: they become the lines of an input file, as they are.

The body is read in a window, so that memory stays flat at any size. A request keeps its own text
but for line breaks between its members: no number is rounded, and a fault in one request refuses
its line alone, as it would in a file.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO

from gateway.intake.lines import MAX_LINE_BYTES, MAX_LINES
from gateway.intake.outcome import FileRefusal
from gateway.intake.window import Malformed, TooLarge, Window, too_large

# All that is no request is read by the gateway itself.
MAX_REST_BYTES = 256 * 1024

_BREAKS = str.maketrans("\r\n", "  ")
# What a line lacks, by the character that it is marked with.
_METHOD, _URL = '"method":"POST"', '"url":"{endpoint}"'
_MARKS = {(False, False): "0", (True, False): "1", (False, True): "2", (True, True): "3"}


@dataclass(frozen=True)
class SplitBody:
    """A create body without its requests.

    Attributes:
        rest: its JSON; in place of the list of requests stands the SHA-256 (hex) of what they say.
        requests: how many requests were in it; None where it has no list of them.
    """

    rest: bytes
    requests: int | None


def split_requests(body: Path, items: Path) -> SplitBody | FileRefusal:
    """Write the requests of a create body to ``items``, one a line, for ``write_lines``.

    Raises:
        OSError: a file cannot be used.
    """
    with body.open("rb") as source, items.open("wb") as target:
        try:
            return _Splitter(Window(source), target).split()
        except TooLarge as error:
            return FileRefusal(413, "request_too_large", f"{error}.")
        except (UnicodeDecodeError, RecursionError, Malformed, ValueError) as error:
            return FileRefusal(400, "invalid_request", _explained(error))


def write_lines(items: Path, target: Path, endpoint: str) -> tuple[int, str]:
    """Write the input file of requests that ``split_requests`` took apart.

    Args:
        items: what it wrote.
        target: the new file; method and url are added where a request omits them.
        endpoint: the url of such requests.

    Returns:
        Size in bytes and SHA-256 (hex) of the file.
    """
    members = {
        mark: ",".join(
            text for text, lacks in zip((_METHOD, _URL), lacking, strict=True) if lacks
        ).replace("{endpoint}", endpoint)
        for lacking, mark in _MARKS.items()
    }
    digest, size = sha256(), 0
    with items.open("rb") as source, target.open("xb") as file:
        for row in source:
            added, line = members[chr(row[0])].encode(), row[1:]
            if added:
                comma = b"" if line[1:].lstrip().startswith(b"}") else b","
                line = b"{" + added + comma + line[1:]
            file.write(line)
            digest.update(line)
            size += len(line)
    return size, digest.hexdigest()


class _Splitter:
    def __init__(self, window: Window, target: BinaryIO) -> None:
        self._window = window
        self._target = target
        self._requests: int | None = None

    def split(self) -> SplitBody | FileRefusal:
        if self._window.peek() != "{":
            _, text = self._window.value(MAX_REST_BYTES)
            return SplitBody(text.encode(), None)
        members = []
        size = 0
        for member in self._members():
            members.append(member)
            size += len(member)
            if size > MAX_REST_BYTES:
                raise too_large(MAX_REST_BYTES)
            if (self._requests or 0) > MAX_LINES:
                return FileRefusal(
                    422,
                    "invalid_batch_file",
                    f"too_many_lines: there are more than {MAX_LINES:,} requests; split them.",
                    "requests",
                )
        if self._window.peek():
            raise Malformed
        rest = "{" + ",".join(members) + "}"
        return SplitBody(rest.encode("utf-8"), self._requests)

    def _members(self) -> Iterator[str]:
        self._window.take("{")
        if self._window.peek() == "}":
            self._window.take("}")
            return
        while True:
            if self._window.peek() != '"':
                raise Malformed
            name, text = self._window.value(MAX_REST_BYTES)
            self._window.take(":")
            listed = name == "requests" and self._requests is None and self._window.peek() == "["
            value = self._list() if listed else self._window.value(MAX_REST_BYTES)[1]
            yield f"{text}:{value}"
            if self._window.take(",}") == "}":
                return

    def _list(self) -> str:
        """Write the list's items out and return their digest as a JSON text."""
        digest = sha256()
        self._requests = 0
        self._window.take("[")
        if self._window.peek() == "]":
            self._window.take("]")
            return '""'
        while self._requests <= MAX_LINES:
            value, text = self._window.value(MAX_LINE_BYTES)
            self._requests += 1
            mark = "0"
            if isinstance(value, dict):
                mark = _MARKS["method" not in value, "url" not in value]
            self._target.write(f"{mark}{text.translate(_BREAKS)}\n".encode())
            digest.update(json.dumps(value, sort_keys=True).encode())
            digest.update(b"\n")
            if self._window.take(",]") == "]":
                break
        return f'"{digest.hexdigest()}"'


def _explained(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "The request body nests too deep."
    if isinstance(error, UnicodeDecodeError):
        return "The request body is not valid Unicode."
    return "The request body is not valid JSON."
