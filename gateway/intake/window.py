"""JSON read through a window: values one after another, of a text that need not fit in memory."""

import codecs
import json
import re
from typing import BinaryIO

PIECE = 1024 * 1024

_SPACE = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder()
# A literal or escape that a window cuts is at most this long.
_CUT = 16


class Malformed(Exception):
    """The text is no JSON."""


class TooLarge(Exception):
    """A value is longer than it may be."""


class Window:
    """A UTF-8 text, of which only a part is in memory.

    Everything may raise ``UnicodeDecodeError``, and ``RecursionError`` for deep nesting.
    """

    def __init__(self, source: BinaryIO) -> None:
        self._source = source
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._text = ""
        self._at = 0
        self._ended = False

    def peek(self) -> str:
        """Return the next character that is no white space, or nothing at the end."""
        while True:
            match = _SPACE.match(self._text, self._at)
            self._at = self._at if match is None else match.end()
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    def take(self, wanted: str) -> str:
        """Pass the next character, one of ``wanted``, and return it."""
        found = self.peek()
        if not found or found not in wanted:
            raise Malformed
        self._at += 1
        return found

    def value(self, limit: int) -> tuple[object, str]:
        """Pass the next JSON value of at most ``limit`` characters; return it and its text."""
        self.peek()
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                cut = error.msg.startswith("Unterminated") or error.pos >= len(self._text) - _CUT
                if not cut or not self._longer(limit):
                    raise Malformed from error
                continue
            # A number may go on in the next piece.
            if len(self._text) - end < _CUT and self._longer(limit):
                continue
            if end - self._at > limit:
                raise too_large(limit)
            text = self._text[self._at : end]
            self._at = end
            return value, text

    def _longer(self, limit: int) -> bool:
        if len(self._text) - self._at > limit + _CUT:
            raise too_large(limit)
        return self._more()

    def _more(self) -> bool:
        """Read a further piece; say whether there was one."""
        if self._ended:
            return False
        piece = self._source.read(PIECE)
        self._ended = not piece
        more = self._decoder.decode(piece, final=self._ended)
        if self._ended:
            return False
        self._text = self._text[self._at :] + more
        self._at = 0
        return True


def too_large(limit: int) -> TooLarge:
    """Return the error of a value that is longer than ``limit`` characters."""
    return TooLarge(f"A value of the request body is longer than {limit:,} characters")
