"""The lines of an input file, told apart as the gateway does."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BLANK = b" \t\r\n"


def read_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the number of each line that is not blank, from 1, and its bytes.

    Raises:
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            content = line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line
            if content.strip(_BLANK):
                yield number, content


def object_of(line: bytes) -> dict[str, Any] | None:
    """Return the JSON object of a line, or None where it is none."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def first_model(path: Path) -> str | None:
    """Return the model that the first line that is an object names, or None."""
    for _, line in read_lines(path):
        value = object_of(line)
        if value is not None:
            body = value.get("body")
            model = body.get("model") if isinstance(body, dict) else None
            return model if isinstance(model, str) else None
    return None
