"""The process that holds the model, so that a crash or a lack of memory ends a try, not a daemon.

Parent and child exchange the messages below over a pipe. The child ends when its parent is gone.
"""

import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from protocol.messages import EngineName, SampleVerdict, Stack, Work
from protocol.repository import RepositoryError, download
from scoring.profile import Profile
from validator.forward import Forward, ForwardFailed, UnsupportedModel

PROGRESS_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Load:
    """Parent: hold this model commit. ``dtype`` None is the repository's own."""

    model: str
    revision: str
    models: Path | None
    engine: EngineName
    dtype: str | None
    device: str
    threads: int | None


@dataclass(frozen=True, slots=True)
class Fetched:
    """Child: so many of the download's bytes are here."""

    done: int
    total: int


@dataclass(frozen=True, slots=True)
class Loaded:
    """Child: the model is ready."""

    stack: Stack
    vocabulary: int


@dataclass(frozen=True, slots=True)
class NotLoaded:
    """Child: this model cannot be had here."""

    reason: str


@dataclass(frozen=True, slots=True)
class Ask:
    """Parent: judge these samples of the work."""

    work: Work
    samples: Mapping[int, Sequence[int]]
    profile: Profile
    pack_tokens: int


@dataclass(frozen=True, slots=True)
class Judged:
    """Child: the verdict on one sample."""

    index: int
    verdict: SampleVerdict


@dataclass(frozen=True, slots=True)
class Advanced:
    """Child: so many more tokens are judged."""

    tokens: int


@dataclass(frozen=True, slots=True)
class Failed:
    """Child: the forward gave out; the samples not yet judged stay without a verdict."""

    reason: str


@dataclass(frozen=True, slots=True)
class Cancel:
    """Parent: give up what you are judging."""


@dataclass(frozen=True, slots=True)
class Done:
    """Child: nothing is being judged any more."""


class _Cancelled(Exception):
    """The parent wants no more of this audit."""


def serve(connection: Connection) -> None:
    """Run the child: answer the parent's messages until it closes the pipe."""
    for number in (signal.SIGINT, signal.SIGTERM):
        # The parent decides when this process ends; a terminal's Ctrl-C reaches both.
        signal.signal(number, signal.SIG_IGN)
    try:
        _serve(connection)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return


def _serve(connection: Connection) -> None:
    forward: Forward | None = None
    while True:
        message = connection.recv()
        if isinstance(message, Load):
            forward = _load(connection, message)
        elif isinstance(message, Ask) and forward is not None:
            for answer in _answers(connection, forward, message):
                connection.send(answer)


def _load(connection: Connection, message: Load) -> Forward | None:
    if message.threads is not None:
        os.environ["OMP_NUM_THREADS"] = str(message.threads)
    told = time.monotonic()

    def fetched(done: int, total: int) -> None:
        nonlocal told
        if time.monotonic() - told > PROGRESS_SECONDS:
            told = time.monotonic()
            connection.send(Fetched(done, total))

    try:
        folder = download(
            message.model,
            message.revision,
            weights=True,
            cache_dir=message.models,
            progress=fetched,
        )
        forward = _forward(folder, message)
    except (RepositoryError, ForwardFailed, UnsupportedModel) as error:
        connection.send(NotLoaded(str(error)))
        return None
    connection.send(Loaded(forward.stack(), forward.vocabulary_size))
    return forward


def _forward(folder: Path, message: Load) -> Forward:
    try:
        from transformers.utils import logging

        from validator import transformers_forward, vllm_forward
        from validator.judge import compile_ahead
    except ImportError as error:
        raise UnsupportedModel(f"{error}; install the extra 'validator'") from error
    # A daemon's log has no room for bars.
    logging.disable_progress_bar()
    compile_ahead()
    if message.engine == "vllm":
        return vllm_forward.load(folder, message.dtype, message.threads)
    return transformers_forward.load(folder, message.dtype, message.device)


def _answers(
    connection: Connection, forward: Forward, ask: Ask
) -> Iterator[Judged | Failed | Done]:
    from validator.judge import judge

    def progress(tokens: int) -> None:
        connection.send(Advanced(tokens))
        if connection.poll() and isinstance(connection.recv(), Cancel):
            raise _Cancelled

    try:
        for index, verdict in judge(
            forward, ask.work, ask.samples, ask.profile, ask.pack_tokens, progress
        ):
            yield Judged(index, verdict)
    except ForwardFailed as error:
        yield Failed(str(error))
    except _Cancelled:
        yield Done()
    else:
        yield Done()
