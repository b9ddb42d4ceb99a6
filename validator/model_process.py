"""The daemon's side of the process that holds the model."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from typing import Any

from protocol.messages import SampleVerdict, Stack, Work
from scoring.profile import Profile
from validator import worker
from validator.forward import ForwardFailed, UnsupportedModel

STOP_SECONDS = 10.0


class AuditCancelled(Exception):
    """The audit was given up because the daemon asked for it."""


class ModelProcess:
    """A child process with one model. Blocking calls belong to one thread; the rest to any.

    Args:
        load: which model the child holds, and how.
    """

    def __init__(self, load: worker.Load) -> None:
        self._load = load
        self._lock = threading.Lock()
        self._sending = threading.Lock()
        self._closed = False
        self._cancelled = False
        self._child: BaseProcess | None = None
        self._pipe: Any = None
        self.stack: Stack | None = None
        self.vocabulary = 0
        self.tokens = 0

    def start(self, fetched: Callable[[int, int], None] = lambda done, total: None) -> None:
        """Start the child and wait until its model is ready, however long the download takes.

        Args:
            fetched: called now and then with the bytes downloaded and the bytes in all.

        Raises:
            UnsupportedModel: the model cannot be had or computed here.
            ForwardFailed: the child died while it loaded.
            AuditCancelled: ``close`` was called.
        """
        with self._lock:
            self._refuse_closed()
            context = get_context("spawn")
            self._pipe, theirs = context.Pipe()
            self._child = context.Process(
                target=worker.serve, args=(theirs,), name="reliquary-model", daemon=True
            )
            self._child.start()
            theirs.close()
        answer = self._exchange(self._load)
        while isinstance(answer, worker.Fetched):
            fetched(answer.done, answer.total)
            answer = self._receive()
        if isinstance(answer, worker.NotLoaded):
            self._end()
            raise UnsupportedModel(answer.reason)
        self.stack, self.vocabulary = answer.stack, answer.vocabulary

    def begin(self) -> None:
        """Get ready for a new audit: no token is judged, nothing is cancelled."""
        self.tokens = 0
        self._cancelled = False

    def judged(
        self,
        work: Work,
        samples: Mapping[int, Sequence[int]],
        profile: Profile,
        pack_tokens: int,
    ) -> Iterator[tuple[int, SampleVerdict]]:
        """Yield index and verdict of each sample as the child judges it; see ``judge``.

        A child that died is replaced first.

        Raises:
            ForwardFailed: the forward gave out or the child died.
            AuditCancelled: ``cancel`` or ``close`` was called.
        """
        if self._child is None or not self._child.is_alive():
            self._restart()
        if self._cancelled:
            raise AuditCancelled
        answer = self._exchange(worker.Ask(work, samples, profile, pack_tokens))
        while not isinstance(answer, worker.Done):
            if isinstance(answer, worker.Failed):
                raise ForwardFailed(answer.reason)
            if isinstance(answer, worker.Judged):
                yield answer.index, answer.verdict
            else:
                self.tokens += answer.tokens
            answer = self._receive()
        if self._cancelled:
            raise AuditCancelled

    def cancel(self) -> None:
        """Make the audit that runs end soon; ``judged`` raises ``AuditCancelled``."""
        self._cancelled = True
        self._send(worker.Cancel())

    def close(self) -> None:
        """End the child for good, whatever it does."""
        with self._lock:
            self._closed = True
            self._end()

    def _restart(self) -> None:
        try:
            self.start()
        except UnsupportedModel as error:
            raise ForwardFailed(f"the model cannot be loaded again: {error}") from error

    def _refuse_closed(self) -> None:
        if self._closed:
            raise AuditCancelled

    def _exchange(self, message: object) -> Any:
        self._send(message)
        return self._receive()

    def _send(self, message: object) -> None:
        if self._pipe is None:
            return
        try:
            with self._sending:
                self._pipe.send(message)
        except OSError:
            # The child is gone; reading from it tells why.
            return

    def _receive(self) -> Any:
        child, pipe = self._child, self._pipe
        if child is None or pipe is None:
            raise AuditCancelled
        try:
            return pipe.recv()
        except (EOFError, OSError) as error:
            self._refuse_closed()
            child.join(STOP_SECONDS)
            raise ForwardFailed(f"the model's process ended with {child.exitcode}") from error

    def _end(self) -> None:
        if self._child is not None and self._child.is_alive():
            self._child.kill()
            self._child.join(STOP_SECONDS)
