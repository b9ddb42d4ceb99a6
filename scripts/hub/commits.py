"""A commit of the local hub: its files' digests, and an id that follows from them alone."""

import json
from dataclasses import asdict, dataclass
from hashlib import sha1, sha256
from pathlib import Path
from typing import Self

CHUNK = 2**20
LARGE_SUFFIXES = (".safetensors", ".bin", ".gguf")


@dataclass(frozen=True)
class File:
    """One file of a commit.

    Args:
        path: below the repository's root, with forward slashes.
        size: in bytes.
        blob_id: git's id of the blob, of its pointer where the file is large (40 hex digits).
        sha256: of a large file's content (64 hex digits), None for others.
        pointer_size: bytes of a large file's pointer, 0 for others.
    """

    path: str
    size: int
    blob_id: str
    sha256: str | None = None
    pointer_size: int = 0

    @property
    def etag(self) -> str:
        """What the hub's client names the cached file by: the sha256, or git's blob id."""
        return self.sha256 or self.blob_id


@dataclass(frozen=True)
class Commit:
    """All files of a repository at one moment, sorted by path."""

    id: str
    files: tuple[File, ...]

    @classmethod
    def of(cls, files: list[File]) -> Self:
        """Name the commit by its files, so that equal content has one id on every machine."""
        ordered = tuple(sorted(files, key=lambda file: file.path))
        lines = [f"{file.etag} {file.size} {file.path}\n" for file in ordered]
        return cls(sha1("".join(["hub commit\n", *lines]).encode()).hexdigest(), ordered)

    def find(self, path: str) -> File | None:
        """Return the file at ``path``, or None."""
        return next((file for file in self.files if file.path == path), None)

    def to_json(self) -> str:
        """Return the commit as it is stored."""
        return json.dumps({"id": self.id, "files": [asdict(file) for file in self.files]}, indent=1)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what ``to_json`` wrote."""
        stored = json.loads(text)
        return cls(stored["id"], tuple(File(**file) for file in stored["files"]))


def describe(root: Path, path: Path) -> File:
    """Read the file at ``path`` below ``root`` and return its digests."""
    size = path.stat().st_size
    git, content = _git_blob(size), sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(CHUNK):
            git.update(chunk)
            content.update(chunk)
    name = path.relative_to(root).as_posix()
    if not name.endswith(LARGE_SUFFIXES):
        return File(name, size, git.hexdigest())
    digest = content.hexdigest()
    pointer = (
        f"version https://git-lfs.github.com/spec/v1\noid sha256:{digest}\nsize {size}\n"
    ).encode()
    blob = _git_blob(len(pointer))
    blob.update(pointer)
    return File(name, size, blob.hexdigest(), digest, len(pointer))


def _git_blob(size: int):
    """Return a hash to which a blob of ``size`` bytes is still to be fed."""
    return sha1(f"blob {size}\0".encode(), usedforsecurity=False)
