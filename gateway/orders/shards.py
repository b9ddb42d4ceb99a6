"""Files of a delivery that are bounded: once one is full the next begins.

Where a file ends follows from its rows alone, so that an export that is made again cuts alike.
"""

from dataclasses import dataclass
from hashlib import file_digest, sha256
from pathlib import Path
from typing import BinaryIO, Protocol

from gateway.store.tables import FileKind


@dataclass(frozen=True)
class Bounds:
    """A file ends once it has so many rows, or so many bytes (of Parquet: before compression)."""

    rows: int
    bytes: int

    def reached(self, rows: int, size: int) -> bool:
        """Say whether a file is full."""
        return rows >= self.rows or size >= self.bytes


@dataclass(frozen=True)
class Shard:
    """A file that is whole, on the local disk; ``sha256`` in hex."""

    name: str
    kind: FileKind
    path: Path
    bytes: int
    sha256: str


class Shards(Protocol):
    """Files of one kind that are being written."""

    def take(self) -> list[Shard]:
        """Return the files that have become whole since the last call."""
        ...

    def finish(self) -> None:
        """Make the last file whole."""
        ...


class JsonlShards:
    """Writes rows of JSONL, which come with their line feeds.

    Args:
        folder: an existing folder.
        prefix: of the files' names: ``<prefix>-00000.jsonl`` and so on.
        always: there is a first file even without any row.

    Attributes:
        bytes: of all files together.
    """

    def __init__(
        self, folder: Path, prefix: str, kind: FileKind, bounds: Bounds, *, always: bool = False
    ) -> None:
        self._folder = folder
        self._prefix = prefix
        self._kind = kind
        self._bounds = bounds
        self._number = 0
        self._whole: list[Shard] = []
        self._file: BinaryIO | None = self._begun() if always else None
        self._rows = self._bytes = 0
        self._hash = sha256()
        self.bytes = 0

    @property
    def sha256(self) -> str:
        """The hex digest of all files, one after another."""
        return self._hash.hexdigest()

    def write(self, row: bytes) -> None:
        """Append a row."""
        if self._file is None:
            self._file = self._begun()
        self._file.write(row)
        self._hash.update(row)
        self.bytes += len(row)
        self._rows += row.count(b"\n")
        self._bytes += len(row)
        if self._bounds.reached(self._rows, self._bytes):
            self.finish()

    def take(self) -> list[Shard]:
        """Return the files that have become whole since the last call."""
        whole, self._whole = self._whole, []
        return whole

    def finish(self) -> None:
        """Make the last file whole; a row after it begins another."""
        if self._file is None:
            return
        self._file.close()
        self._file = None
        self._whole.append(whole_shard(self._path, self._kind))
        self._number += 1
        self._rows = self._bytes = 0

    @property
    def _path(self) -> Path:
        return self._folder / f"{self._prefix}-{self._number:05}.jsonl"

    def _begun(self) -> BinaryIO:
        return self._path.open("xb")


def whole_shard(path: Path, kind: FileKind) -> Shard:
    """Return a file that is written and closed."""
    with path.open("rb") as file:
        digest = file_digest(file, "sha256").hexdigest()
    return Shard(path.name, kind, path, path.stat().st_size, digest)
