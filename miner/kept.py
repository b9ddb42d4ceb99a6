"""Leases and results on disk, until the gateway has taken them: what a restart must not lose.

A lease whose unit is over is kept on for a while: it is the gateway's signed commitment to the
terms, and the miner's own copy of it.
"""

import os
import tempfile
from pathlib import Path
from typing import NamedTuple, TypeVar

import structlog
from pydantic import ValidationError

from protocol.messages import Lease, Message, Result, Stack

# How long leases are kept whose unit is over.
KEEP_SECONDS = 7 * 24 * 3_600.0

M = TypeVar("M", bound=Message)

log = structlog.get_logger()


class Left(NamedTuple):
    """A lease that is not over; what it was taken with, and its result, where they are known."""

    lease: Lease
    stack: Stack | None
    result: Result | None


class KeptLeases:
    """One folder with files for each lease, its stack and its result; blocking.

    Args:
        folder: made where there is none.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder

    def keep(self, lease: Lease, stack: Stack) -> None:
        """Write a lease down before anything is done for it, and the stack that it was taken with.

        The gateway takes a result of that very stack alone.
        """
        if self._write(self._path(lease.lease_id, "lease"), lease):
            self._write(self._path(lease.lease_id, "stack"), stack)

    def keep_result(self, lease_id: str, result: Result) -> None:
        """Write a signed result down before it is posted."""
        self._write(self._path(lease_id, "result"), result)

    def end(self, lease_id: str) -> None:
        """Note that a lease is over: answered, given back, or lost."""
        for kind in ("result", "stack"):
            self._path(lease_id, kind).unlink(missing_ok=True)
        lease = self._path(lease_id, "lease")
        if lease.exists():
            lease.replace(self._path(lease_id, "over"))

    def left(self) -> list[Left]:
        """Return the leases that are not over."""
        found = []
        for path in sorted(self._folder.glob("*.lease.json")):
            lease_id = path.name.partition(".")[0]
            lease = _read(path, Lease)
            if lease is None:
                self.end(lease_id)
            else:
                stack = _read(self._path(lease_id, "stack"), Stack)
                result = _read(self._path(lease_id, "result"), Result)
                found.append(Left(lease, stack, result))
        return found

    def prune(self, now: float) -> None:
        """Remove leases that are over for long, and drafts of a killed run; ``now`` in Unix s."""
        for path in [*self._folder.glob("*.over.json"), *self._folder.glob(".*.draft")]:
            if path.stat().st_mtime < now - KEEP_SECONDS:
                path.unlink()

    def _path(self, lease_id: str, kind: str) -> Path:
        return self._folder / f"{lease_id}.{kind}.json"

    def _write(self, path: Path, message: Message) -> bool:
        """Write a message down whole; where the disk refuses, say so: the work itself goes on."""
        draft = None
        try:
            descriptor, draft = tempfile.mkstemp(dir=self._folder, prefix=".", suffix=".draft")
            with os.fdopen(descriptor, "wb") as file:
                file.write(message.model_dump_json().encode())
                file.flush()
                os.fsync(file.fileno())
            Path(draft).replace(path)
        except OSError as error:
            log.error("not kept: a restart loses it", path=str(path), reason=error.strerror)
            if draft is not None:
                Path(draft).unlink(missing_ok=True)
            return False
        return True


def _read(path: Path, kind: type[M]) -> M | None:
    if not path.exists():
        return None
    try:
        return kind.model_validate_json(path.read_bytes())
    except ValidationError:
        log.warning("a kept file is damaged and is left out", path=str(path))
        return None
