"""Download progress: ``huggingface_hub``'s bars added up into one callback."""

from collections.abc import Callable
from threading import Lock
from types import TracebackType
from typing import Self

Progress = Callable[[int, int], None]
"""Called with the bytes done and the bytes in all, from any thread, one call at a time."""


def progress_bar(progress: Progress | None, total: int) -> type:
    """Return a class with tqdm's interface whose instances add up into ``progress``."""
    lock = Lock()
    done = 0

    class Bar:
        """One file's bar; ``huggingface_hub`` feeds it the bytes it has written."""

        def __init__(self, *_: object, initial: int = 0, **__: object) -> None:
            self.update(initial)

        def __enter__(self) -> Self:
            return self

        def __exit__(
            self,
            kind: type[BaseException] | None,
            value: BaseException | None,
            traceback: TracebackType | None,
        ) -> None:
            self.close()

        def close(self) -> None:
            """Nothing to draw, nothing to close."""

        def update(self, amount: float | None = 1) -> None:
            """Add ``amount`` bytes."""
            nonlocal done
            with lock:
                done += int(amount or 0)
                if progress is not None:
                    progress(min(done, total), total)

        def update_transfer(self, amount: float | None = 1) -> None:
            """Bytes on the wire; only those on disk are shown."""

        def set_postfix_str(self, *_: object, **__: object) -> None:
            """The rate is not shown."""

        set_transfer_postfix_str = set_postfix_str

    return Bar
