"""The worker processes of intake, in which files are read."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Self, TypeVar

from gateway.errors import GatewayError
from gateway.intake.file import run_intake
from gateway.intake.first_model import first_model
from gateway.intake.inline import SplitBody, split_requests
from gateway.intake.job import IntakeJob
from gateway.intake.outcome import FileRefusal, Intake
from gateway.key_locks import KeyLocks
from gateway.worker import OVERTIME
from gateway.workers import WorkerDied, WorkerPool

T = TypeVar("T")


class IntakePool(WorkerPool):
    """Reads customers' files outside the gateway's process; its workers start with it.

    A customer's files are read one at a time: who sends many at once waits for himself.

    Args:
        workers: files that are read at the same time.
        job_seconds: the longest that reading one file may take.
        wait_seconds: the longest that a file waits for a worker, or for another of its customer.
    """

    def __init__(
        self, workers: int = 2, job_seconds: float = 600.0, wait_seconds: float = 120.0
    ) -> None:
        super().__init__(workers, job_seconds, wait_seconds, "batch_unavailable")
        self._turns = KeyLocks()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def first_model(self, path: Path) -> str | None:
        """The model that a file's first line names; see ``first_model.first_model``.

        Raises:
            GatewayError: 503 ``batch_unavailable``.
        """
        return await self.run(first_model, path)

    async def intake(self, job: IntakeJob, customer: str) -> Intake:
        """Read a file of a customer.

        Raises:
            GatewayError: the file is refused; or 503 ``batch_unavailable``: no worker is free,
                reading takes too long, or the worker died.
        """
        async with self._turn(customer):
            try:
                return accepted(await self.attempt(run_intake, job))
            except WorkerDied as error:
                if error.exitcode == OVERTIME:
                    raise _tokenizer_overtime() from error
                raise self.unavailable("Reading was interrupted") from error

    async def split_requests(self, body: Path, items: Path) -> SplitBody:
        """Take the requests out of a create body; see ``inline.split_requests``.

        Raises:
            GatewayError: the body is refused; or 503 ``batch_unavailable``.
        """
        return accepted(await self.run(split_requests, body, items))

    @asynccontextmanager
    async def _turn(self, customer: str) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(self._wait_seconds):
                    await stack.enter_async_context(self._turns.hold(customer))
            except TimeoutError:
                raise self.unavailable("Another file of this account is being read") from None
            yield


def accepted(outcome: T | FileRefusal) -> T:
    """Return what came of a file that is not refused.

    Raises:
        GatewayError: the file's refusal.
    """
    if isinstance(outcome, FileRefusal):
        raise GatewayError(outcome.status, outcome.code, outcome.message, outcome.param)
    return outcome


def _tokenizer_overtime() -> GatewayError:
    return GatewayError(
        422, "model_unsupported", "The model's tokenizer: it does not end in bounded time."
    )
