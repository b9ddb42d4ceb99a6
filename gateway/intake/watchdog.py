"""A bound on what a tokenizer computes: it comes from a public repository and can be made to hang.

Its native code heeds no exception, so the system ends the process once its CPU time is spent, as
``gateway.worker.cpu_deadline`` does for a whole block; ``pool.py`` tells by the signal.
"""

import signal
from collections.abc import Sequence

from gateway.intake.tokenizer import ModelTokenizer

LOADING_SECONDS = 30.0
# Beside these, encoding may take what the slowest real tokenizers do, several times over.
FIRST_SECONDS = 5.0
CHARACTERS_PER_SECOND = 200_000


class WatchedEncoder:
    """Encodes the texts of one file; the process ends where they take too much CPU time.

    The time grows with every text, and what one leaves of it is the next one's.
    """

    def __init__(self, tokenizer: ModelTokenizer) -> None:
        self._tokenizer = tokenizer
        self._seconds = FIRST_SECONDS

    def encode(self, texts: Sequence[str], *, special_tokens: bool) -> list[list[int]]:
        """The ids of each text; see ``ModelTokenizer.encode``."""
        self._seconds += sum(map(len, texts)) / CHARACTERS_PER_SECOND
        signal.setitimer(signal.ITIMER_PROF, self._seconds)
        try:
            return self._tokenizer.encode(texts, special_tokens=special_tokens)
        finally:
            self._seconds, _ = signal.setitimer(signal.ITIMER_PROF, 0)
