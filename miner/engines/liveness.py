"""A known draw that an engine repeats when it loads, to prove that its draw is live."""

from collections.abc import Sequence
from hashlib import sha256

import numpy as np

from protocol.draw.reference import draw
from protocol.sampling import Sampling

# High temperature over twenty ids: by chance, an engine that ignores the draw cannot pass.
CHECK_SAMPLING = Sampling(temperature=4.0, top_k=20, max_tokens=8)
CHECK_PROMPT = (1, 2, 3, 4, 5, 6, 7, 8)
CHECK_KEYS = tuple(sha256(b"reliquary liveness %d" % number).digest() for number in range(2))
# Highest logits that are read per position: those kept by top_k, and room for ties at its edge.
CHECK_LOGPROBS = 32
_ABSENT = -np.inf


def expected(rows: Sequence[dict[int, float]], key: bytes, vocabulary_size: int) -> list[int]:
    """Return the ids that the reference draws at positions 0, 1, ... under ``CHECK_SAMPLING``.

    Args:
        rows: per position the highest logits by id; ids that are not named cannot be kept.
    """
    drawn: list[int] = []
    for position, row in enumerate(rows):
        logits = np.full(vocabulary_size, _ABSENT)
        logits[list(row)] = list(row.values())
        drawn.append(draw(logits, key, position, CHECK_SAMPLING))
    return drawn
