"""The forced draw as a compiled loop on the CPU: whole batches at full vocabularies.

Equal to ``protocol.draw.reference`` and far cheaper than what it replaces, because it takes
logarithms, exponentials and even noise only where an id could still win:

- The largest logit of every block of ids is found first. An id beats the best score so far only
  if its 32-bit word x is small enough, g <= -log((x + .5) / 2^32), so one limit on x per block,
  from the block's largest logit, stands for all of its logarithms.
- top_k finds its threshold among the few blocks whose largest logit reaches it.
- Where top_k and min_p leave few ids, nothing but those has noise or a mass.
- top_p needs no sort. What is kept is a prefix of the ids by falling logit; the winner of a prefix
  that lies in a shorter prefix also wins there. So draw, and where the drawn id lies outside the
  nucleus, draw again from the ids ahead of it.
"""

import numpy as np

from protocol.draw import numba_loops
from protocol.draw.arguments import checked
from protocol.draw.numba_loops import BLOCK, NOT_DRAWN

__all__ = ["NOT_DRAWN", "draw_rows", "gumbel_of", "kth_largest"]


def draw_rows(
    logits: np.ndarray,
    keys: np.ndarray,
    positions: np.ndarray,
    temperature: np.ndarray,
    top_k: np.ndarray,
    top_p: np.ndarray,
    min_p: np.ndarray,
    vocabulary_size: int,
) -> np.ndarray:
    """Return the id due at each row.

    Args:
        logits: float32 [R, C], C >= V; columns past V are padding and never drawn.
        keys: uint32 [R, 4], ``key_words`` of each row's draw key.
        positions: integers [R], 0 is the first completion token.
        temperature, top_k, top_p, min_p: [R], as in ``Sampling``. Float64 keeps the parameters'
            exact values, float32 rounds them.
        vocabulary_size: V of the draw.

    The interpreter lock is not held, so threads that split a batch between them run side by side.

    Returns:
        int64 [R]; ``NOT_DRAWN`` for a row that holds NaN or +inf, or whose logits are all -inf.

    Raises:
        ValueError: a shape does not fit, or a parameter is out of its range.
        TypeError: the logits are not float32.
    """
    arguments = checked(logits, keys, positions, temperature, top_k, top_p, min_p, vocabulary_size)
    drawn = np.empty(len(logits), dtype=np.int64)
    numba_loops.draw_all(*arguments, drawn)
    return drawn


def gumbel_of(key: np.ndarray, position: int, ids: np.ndarray) -> np.ndarray:
    """Return the noise of ``ids`` at ``position``, float64 [n].

    Args:
        key: uint32 [4], the ``key_words`` of the draw key.
        position: 0 is the first completion token.
        ids: int64 [n].
    """
    noise = np.empty(len(ids), dtype=np.float64)
    numba_loops.gumbel_of(key, np.uint32(position), ids, noise)
    return noise


def kth_largest(logits: np.ndarray, k: int) -> float:
    """Return the k-th largest of a row of logits, float32 [V] without NaN, 1 <= k <= V."""
    peaks = np.empty(-(-len(logits) // BLOCK), dtype=np.float32)
    numba_loops.find_peaks(logits, peaks)
    return float(numba_loops.kth_largest(logits, peaks, k))
