"""A model's download in a process of its own (``python -m miner.fetch``), so that it can be ended.

The process prints one JSON object a line: ``{"done", "total"}`` in bytes, then ``{"folder"}`` or
``{"error", "passing"}``.
"""

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from protocol.repository import RepositoryError, Unreachable, download

LINE_BYTES = 1 << 16


class FetchFailed(Exception):
    """A model could not be downloaded; ``passing`` tells whether a later try may do."""

    def __init__(self, reason: str, passing: bool) -> None:
        super().__init__(reason)
        self.passing = passing


async def fetch(
    model: str, revision: str, folder: Path | None, progress: Callable[[int, int], None]
) -> Path:
    """Return the folder that holds ``model`` at a commit, weights included.

    Args:
        folder: of downloaded models; None is Hugging Face's own cache.
        progress: told the bytes done and in all.

    Raises:
        FetchFailed: the hub is away or does not give this model out.
    """
    arguments = [model, revision, *([] if folder is None else [str(folder)])]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "miner.fetch",
        *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        limit=LINE_BYTES,
        start_new_session=True,
    )
    try:
        return await _followed(process, progress)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def _followed(
    process: asyncio.subprocess.Process, progress: Callable[[int, int], None]
) -> Path:
    assert process.stdout is not None
    async for line in process.stdout:
        message = json.loads(line)
        if "folder" in message:
            await process.wait()
            return Path(message["folder"])
        if "error" in message:
            await process.wait()
            raise FetchFailed(message["error"], message["passing"])
        progress(message["done"], message["total"])
    raise FetchFailed(f"the download ended with status {await process.wait()}", passing=True)


def main(model: str, revision: str, folder: str | None = None) -> None:
    """Download and tell of it on standard output."""
    told = -1

    def progress(done: int, total: int) -> None:
        nonlocal told
        percent = 100 * done // max(total, 1)
        if percent > told:
            told = percent
            _tell({"done": done, "total": total})

    try:
        cache = None if folder is None else Path(folder)
        path = download(model, revision, weights=True, cache_dir=cache, progress=progress)
    except RepositoryError as error:
        _tell({"error": str(error), "passing": isinstance(error, Unreachable)})
    else:
        _tell({"folder": str(path)})


def _tell(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
