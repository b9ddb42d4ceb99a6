"""The files of a delivery, read as streams in bounded memory, whoever wrote them."""

import os
import stat
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, Self

from protocol.manifest import FileName, FileRecord
from scripts.verify.discrepancy import Discrepancy, Uncheckable

PIECE = 1024 * 1024


class DeliveryFile:
    """One file of a delivery, read once from start to end; a context manager.

    Only a plain file is opened: no link that leads elsewhere, no pipe that never ends.

    Raises:
        Discrepancy: there is no such file, or it is no plain file.
        Uncheckable: it cannot be read.
    """

    def __init__(self, folder: Path, name: FileName) -> None:
        self.name: FileName = name
        self.line = 0
        self.bytes = 0
        self._hash = sha256()
        self._file = _open_plain(folder, name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def read_line(self, limit: int) -> bytes:
        """Return the next line with its line feed, its first ``limit`` bytes where it is longer.

        Nothing at the file's end.
        """
        try:
            content = self._file.readline(limit)
        except OSError as error:
            raise Uncheckable(f"cannot read {self.name}: {error.strerror}") from error
        self.line += 1
        self.bytes += len(content)
        self._hash.update(content)
        return content

    def finish(self, record: FileRecord) -> None:
        """Check that the file ends here and is the one that ``record`` tells of.

        Raises:
            Discrepancy: it goes on, or size or hash differ.
        """
        if self.read_line(PIECE):
            raise self.fault("the file goes on past what was delivered")
        self.check_size(record)
        if self._hash.hexdigest() != record.sha256:
            message = "the file's SHA-256 is not the one in the manifest"
            raise Discrepancy(self.name, message, field="sha256")

    def check_size(self, record: FileRecord) -> None:
        """Check the size of a file that was read to its end.

        Raises:
            Discrepancy: it is not the one of ``record``.
        """
        if self.bytes != record.bytes:
            message = f"the file has {self.bytes} bytes, the manifest says {record.bytes}"
            raise Discrepancy(self.name, message, field="bytes")

    def fault(
        self, message: str, *, custom_id: str | None = None, field: str | None = None
    ) -> Discrepancy:
        """Return a discrepancy in the line that was read last."""
        return Discrepancy(
            self.name, message, line=self.line or None, custom_id=custom_id, field=field
        )


def read_whole(folder: Path, name: str, limit: int) -> bytes:
    """Return the content of a small file of a delivery.

    Raises:
        Discrepancy: there is no such plain file, or it is larger than ``limit`` bytes.
        Uncheckable: it cannot be read.
    """
    with _open_plain(folder, name) as file:
        try:
            content = file.read(limit + 1)
        except OSError as error:
            raise Uncheckable(f"cannot read {name}: {error.strerror}") from error
    if len(content) > limit:
        raise Discrepancy(name, f"is larger than {limit} bytes")
    return content


def _open_plain(folder: Path, name: str) -> BinaryIO:
    # Without waiting for the writer of a pipe.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        descriptor = os.open(folder / name, flags)
    except FileNotFoundError:
        raise Discrepancy(name, "is missing") from None
    except OSError as error:
        if (folder / name).is_symlink():
            raise Discrepancy(name, "is a link; a delivery holds plain files") from error
        raise Uncheckable(f"cannot read {folder / name}: {error.strerror}") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise Discrepancy(name, "is no plain file")
    return os.fdopen(descriptor, "rb")
