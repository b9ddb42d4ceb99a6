"""One gateway a data folder: a second one would clear what the first is reading."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class FolderTaken(OSError):
    """Another gateway process uses the folder."""


@contextmanager
def sole_user(folder: Path) -> Iterator[None]:
    """Hold ``folder`` for this process; the system lets go of it however the process ends.

    Raises:
        FolderTaken: another process holds it.
    """
    with (folder / "gateway.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise FolderTaken(f"another gateway uses the data folder {folder}") from error
        yield
