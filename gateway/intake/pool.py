"""The worker processes of intake, which may hang or die without taking the gateway along."""

import asyncio
import multiprocessing
import os
import signal
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from pathlib import Path
from typing import ParamSpec, Self, TypeVar

from gateway.errors import GatewayError
from gateway.intake.file import run_intake
from gateway.intake.inline import SplitBody, split_requests
from gateway.intake.job import IntakeJob
from gateway.intake.outcome import FileRefusal, Intake
from gateway.intake.worker import first_model, prepare, process_id

P = ParamSpec("P")
T = TypeVar("T")

_RETRY_SECONDS = 10


class IntakePool:
    """Runs intake outside the gateway's process; an async context manager.

    Each worker is an executor of its own, so that one that dies or is stopped takes no other
    customer's file along. A worker that died is replaced when it is next needed.

    Args:
        workers: files that are read at the same time.
        job_seconds: the longest that reading one file may take.
        wait_seconds: the longest that a file waits for a worker.
    """

    def __init__(
        self, workers: int = 2, job_seconds: float = 600.0, wait_seconds: float = 120.0
    ) -> None:
        self._job_seconds = job_seconds
        self._wait_seconds = wait_seconds
        self._workers = [_Worker() for _ in range(workers)]
        self._idle: asyncio.LifoQueue[_Worker] = asyncio.LifoQueue()

    async def start(self) -> None:
        """Start the worker processes."""
        await asyncio.gather(*(worker.start() for worker in self._workers))
        for worker in self._workers:
            self._idle.put_nowait(worker)

    async def close(self) -> None:
        """Stop the worker processes, whatever they are doing."""
        for worker in self._workers:
            worker.stop()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def first_model(self, path: Path) -> str | None:
        """The model that a file's first line names; see ``worker.first_model``.

        Raises:
            GatewayError: 503 ``batch_unavailable``.
        """
        return await self.run(first_model, path)

    async def intake(self, job: IntakeJob) -> Intake:
        """Read a file.

        Raises:
            GatewayError: the file is refused; or 503 ``batch_unavailable``: no worker is free,
                reading takes too long, or the worker died.
        """
        return accepted(await self.run(run_intake, job))

    async def split_requests(self, body: Path, items: Path) -> SplitBody:
        """Take the requests out of a create body; see ``inline.split_requests``.

        Raises:
            GatewayError: the body is refused; or 503 ``batch_unavailable``.
        """
        return accepted(await self.run(split_requests, body, items))

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a function of a module in a worker process.

        Raises:
            GatewayError: 503 ``batch_unavailable``.
        """
        try:
            async with asyncio.timeout(self._wait_seconds):
                worker = await self._idle.get()
        except TimeoutError:
            raise _unavailable("Too much is being read") from None
        try:
            async with asyncio.timeout(self._job_seconds):
                return await worker.run(function, *args, **kwargs)
        except TimeoutError:
            raise _unavailable("Reading took too long") from None
        except BrokenProcessPool:
            raise _unavailable("Reading was interrupted") from None
        finally:
            self._idle.put_nowait(worker)


class _Worker:
    """One process behind an executor of its own."""

    def __init__(self) -> None:
        self._executor: ProcessPoolExecutor | None = None
        self._process_id: int | None = None

    async def start(self) -> ProcessPoolExecutor:
        """Start the process; the executor of one that runs already."""
        if self._executor is None:
            self._executor = ProcessPoolExecutor(
                1, multiprocessing.get_context("spawn"), initializer=prepare
            )
            self._process_id = await asyncio.wrap_future(self._executor.submit(process_id))
        return self._executor

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a function in the process; a run that ends early takes the process with it.

        Raises:
            BrokenProcessPool: the process died.
        """
        try:
            executor = await self.start()
            return await asyncio.wrap_future(executor.submit(function, *args, **kwargs))
        except asyncio.CancelledError:
            self.stop()
            raise
        except BrokenProcessPool:
            self._executor, self._process_id = None, None
            raise

    def stop(self) -> None:
        """End the process at once."""
        if self._process_id is not None:
            with suppress(ProcessLookupError):
                os.kill(self._process_id, signal.SIGKILL)
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)
        self._executor, self._process_id = None, None


def accepted(outcome: T | FileRefusal) -> T:
    """Return what came of a file that is not refused.

    Raises:
        GatewayError: the file's refusal.
    """
    if isinstance(outcome, FileRefusal):
        raise GatewayError(outcome.status, outcome.code, outcome.message, outcome.param)
    return outcome


def _unavailable(what: str) -> GatewayError:
    return GatewayError(
        503, "batch_unavailable", f"{what}; try again shortly.", retry_after=_RETRY_SECONDS
    )
