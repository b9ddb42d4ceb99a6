"""Worker processes, which may hang or die without taking the gateway along."""

import asyncio
import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.process import BaseProcess
from typing import ParamSpec, Self, TypeVar

from gateway.errors import GatewayError
from gateway.worker import prepare, process_id

P = ParamSpec("P")
T = TypeVar("T")

_RETRY_SECONDS = 10


class WorkerDied(Exception):
    """A worker process ended in the middle of a job; ``exitcode`` is minus the signal's number."""

    def __init__(self, exitcode: int | None) -> None:
        super().__init__(f"a worker ended with {exitcode}")
        self.exitcode = exitcode


class WorkerPool:
    """Runs functions outside the gateway's process; an async context manager.

    Each worker is an executor of its own, so that one that dies or is stopped takes no other job
    along. A worker that does not run, or died, is started when it is next needed.

    Args:
        workers: jobs that are done at the same time.
        job_seconds: the longest that one job may take.
        wait_seconds: the longest that a job waits for a worker.
        code: of the 503 that tells of a job that was not done.
    """

    def __init__(self, workers: int, job_seconds: float, wait_seconds: float, code: str) -> None:
        self._job_seconds = job_seconds
        self._wait_seconds = wait_seconds
        self._code = code
        self._workers = [_Worker() for _ in range(workers)]
        self._idle: asyncio.LifoQueue[_Worker] = asyncio.LifoQueue()
        for worker in self._workers:
            self._idle.put_nowait(worker)

    async def start(self) -> None:
        """Start the worker processes, before anybody has to wait for them."""
        await asyncio.gather(*(worker.start() for worker in self._workers))

    async def close(self) -> None:
        """Stop the worker processes, whatever they are doing."""
        for worker in self._workers:
            worker.stop()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a function of a module in a worker process; what it raises is raised here.

        Raises:
            GatewayError: 503: no worker is free, the job takes too long, or the worker died.
        """
        try:
            return await self.attempt(function, *args, **kwargs)
        except WorkerDied as error:
            raise self.unavailable("Reading was interrupted") from error

    async def attempt(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a function as ``run`` does.

        Raises:
            GatewayError: 503: no worker is free, or the job takes too long.
            WorkerDied: the worker died.
        """
        try:
            async with asyncio.timeout(self._wait_seconds):
                worker = await self._idle.get()
        except TimeoutError:
            raise self.unavailable("Too much is being read") from None
        try:
            async with asyncio.timeout(self._job_seconds):
                return await worker.run(function, *args, **kwargs)
        except TimeoutError:
            raise self.unavailable("Reading took too long") from None
        finally:
            self._idle.put_nowait(worker)

    def unavailable(self, what: str) -> GatewayError:
        """The answer to a job that was not done."""
        message = f"{what}; try again shortly."
        return GatewayError(503, self._code, message, retry_after=_RETRY_SECONDS)


class _Worker:
    """One process behind an executor of its own."""

    def __init__(self) -> None:
        self._executor: ProcessPoolExecutor | None = None
        self._process: BaseProcess | None = None

    async def start(self) -> ProcessPoolExecutor:
        """Start the process; the executor of one that runs already."""
        if self._executor is None:
            self._executor = ProcessPoolExecutor(
                1, multiprocessing.get_context("spawn"), initializer=prepare
            )
            number = await asyncio.wrap_future(self._executor.submit(process_id))
            children = multiprocessing.active_children()
            self._process = next(child for child in children if child.pid == number)
        return self._executor

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a function in the process; a run that ends early takes the process with it.

        Raises:
            WorkerDied: the process died.
        """
        try:
            executor = await self.start()
            return await asyncio.wrap_future(executor.submit(function, *args, **kwargs))
        except asyncio.CancelledError:
            self.stop()
            raise
        except BrokenProcessPool:
            if self._process is not None:
                # It is dead, but perhaps not reaped yet.
                await asyncio.to_thread(self._process.join, 5)
            exitcode = None if self._process is None else self._process.exitcode
            self._executor, self._process = None, None
            raise WorkerDied(exitcode) from None

    def stop(self) -> None:
        """End the process at once."""
        if self._process is not None:
            self._process.kill()
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)
        self._executor, self._process = None, None
