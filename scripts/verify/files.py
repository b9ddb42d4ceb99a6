"""The files of a delivery, read as streams in bounded memory, whoever wrote them."""

import os
import stat
from collections.abc import Sequence
from hashlib import sha256
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO, Self

from protocol.manifest import FileRecord
from scripts.verify.discrepancy import Discrepancy, Uncheckable

PIECE = 1024 * 1024


class DeliveryFile:
    """Files of one kind, read once from start to end as if they were one; a context manager.

    Only plain files are opened: no link that leads elsewhere, no pipe that never ends.

    Args:
        folder: the delivery.
        records: name and record of each file, in order.
        name: what to call them where there are none.

    Raises:
        Discrepancy: there is no such file, or it is no plain file.
        Uncheckable: it cannot be read.
    """

    def __init__(self, folder: Path, records: Sequence[tuple[str, FileRecord]], name: str) -> None:
        self.name = name
        self.line = 0
        self._folder = folder
        self._records = list(records)
        self._left = iter(records)
        self._bytes = 0
        self._hash = sha256()
        self._read: list[FileRecord] = []
        self._file: BinaryIO | None = None
        self._open_next()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def read_line(self, limit: int) -> bytes:
        """Return the next line with its line feed, its first ``limit`` bytes where it is longer.

        Nothing at the end of the last file.
        """
        while self._file is not None:
            try:
                content = self._file.readline(limit)
            except OSError as error:
                raise Uncheckable(f"cannot read {self.name}: {error.strerror}") from error
            if content:
                self.line += 1
                self._bytes += len(content)
                self._hash.update(content)
                return content
            self._end()
        self.line += 1
        return b""

    def finish(self) -> None:
        """Check that the files end here and are those that the records tell of.

        Raises:
            Discrepancy: one goes on, or its size or hash differ.
        """
        if self.read_line(PIECE):
            raise self.fault("the file goes on past what was delivered")
        self.check_sizes()
        for (name, record), read in zip(self._records, self._read, strict=True):
            if read.sha256 != record.sha256:
                message = "the file's SHA-256 is not the one in the manifest"
                raise Discrepancy(name, message, field="sha256")

    def check_sizes(self) -> None:
        """Check the sizes of the files that were read to their end.

        Raises:
            Discrepancy: one is not that of its record.
        """
        for (name, record), read in zip(self._records, self._read, strict=False):
            if read.bytes != record.bytes:
                message = f"the file has {read.bytes} bytes, the manifest says {record.bytes}"
                raise Discrepancy(name, message, field="bytes")

    def fault(
        self, message: str, *, custom_id: str | None = None, field: str | None = None
    ) -> Discrepancy:
        """Return a discrepancy in the line that was read last."""
        return Discrepancy(
            self.name, message, line=self.line or None, custom_id=custom_id, field=field
        )

    def _end(self) -> None:
        """Note what was read of a file, and go on with the next."""
        if self._file is not None:
            self._file.close()
            self._file = None
        self._read.append(FileRecord(bytes=self._bytes, sha256=self._hash.hexdigest()))
        self._open_next()

    def _open_next(self) -> None:
        name, _ = next(self._left, (None, None))
        if name is not None:
            self._file = open_plain(self._folder, name)
            self.name, self.line = name, 0
            self._bytes, self._hash = 0, sha256()


def read_whole(folder: Path, name: str, limit: int) -> bytes:
    """Return the content of a small file of a delivery.

    Raises:
        Discrepancy: there is no such plain file, or it is larger than ``limit`` bytes.
        Uncheckable: it cannot be read.
    """
    with open_plain(folder, name) as file:
        try:
            content = file.read(limit + 1)
        except OSError as error:
            raise Uncheckable(f"cannot read {name}: {error.strerror}") from error
    if len(content) > limit:
        raise Discrepancy(name, f"is larger than {limit} bytes")
    return content


def open_plain(folder: Path, name: str) -> BufferedReader:
    """Open a file of a delivery that is a plain one.

    Raises:
        Discrepancy: there is none.
        Uncheckable: it cannot be read.
    """
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
