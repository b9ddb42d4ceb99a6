"""Which lines of a file to order again: those that a batch left short of samples."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.batch.gateway import BatchError
from scripts.batch.lines import object_of, read_lines


@dataclass(frozen=True)
class Retry:
    """What came of a batch's lines.

    Attributes:
        lines: the bytes of those to order again, in file order.
        refused: the error entries of refused lines, which would be refused again.
    """

    lines: list[bytes]
    refused: list[Mapping[str, Any]]


def lines_to_retry(path: Path, errors: Iterable[Mapping[str, Any]]) -> Retry:
    """Return the lines of an input file that its batch left short of samples.

    Args:
        path: the file that was ordered.
        errors: the entries of the batch's error file.

    Raises:
        BatchError: the file is not the one that was ordered.
        OSError: it cannot be read.
    """
    entries = list(errors)
    refused = [entry for entry in entries if "line" in entry]
    short = {str(entry["custom_id"]) for entry in entries if "line" not in entry}
    numbers = {entry["line"] for entry in refused}
    kept: list[bytes] = []
    for number, line in read_lines(path):
        value = None if number in numbers else object_of(line)
        custom_id = None if value is None else value.get("custom_id")
        if isinstance(custom_id, str) and custom_id in short:
            short.remove(custom_id)
            kept.append(line.rstrip(b"\r\n") + b"\n")
    if short:
        raise BatchError(
            f"{path} has no line {min(short)!r}, which the batch has; give the file you ordered"
        )
    return Retry(kept, refused)
