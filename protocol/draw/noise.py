"""The Gumbel noise of the forced draw (section 2), in float64."""

import numpy as np

from protocol.draw.key import key_words
from protocol.draw.philox import philox4x32

POSITION_LIMIT = 2**32


def noise_words(key: bytes, position: int, ids: np.ndarray) -> np.ndarray:
    """Return the 32-bit integers x behind the noise of ``ids`` at ``position``.

    Args:
        key: the 32-byte draw key.
        position: 0 is the first completion token.
        ids: vocabulary ids, integers [n].

    Returns:
        uint32 [n].

    Raises:
        ValueError: the position does not fit 32 bits.
    """
    if not 0 <= position < POSITION_LIMIT:
        raise ValueError(f"position must lie in 0 .. 2^32 - 1, not {position}")
    words = key_words(key)
    ids = np.asarray(ids, dtype=np.int64)
    counter = np.empty((len(ids), 4), dtype=np.uint32)
    counter[:, 0] = ids >> 2
    counter[:, 1] = position
    counter[:, 2:] = words[2:]
    return philox4x32(counter, words[:2])[np.arange(len(ids)), ids & 3]


def gumbel_of_words(words: np.ndarray) -> np.ndarray:
    """Return the Gumbel(0, 1) value that each 32-bit integer stands for, float64, same shape.

    log1p keeps the end near x = 0 fine, where the largest values lie; the half keeps both
    logarithms finite at both ends.
    """
    exponential = -np.log1p(-(words.astype(np.float64) + 0.5) * 2.0**-32)
    return -np.log(exponential)


def gumbel(key: bytes, position: int, ids: np.ndarray) -> np.ndarray:
    """Return the noise g(position, id) of ``ids`` under ``key``, float64 [n].

    Arguments and errors are those of ``noise_words``.
    """
    return gumbel_of_words(noise_words(key, position, ids))
