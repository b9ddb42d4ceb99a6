"""The arguments of a batched draw, checked before a loop without bounds checks sees them."""

from typing import Any

import numpy as np


def checked(
    logits: np.ndarray,
    keys: np.ndarray,
    positions: np.ndarray,
    temperature: np.ndarray,
    top_k: np.ndarray,
    top_p: np.ndarray,
    min_p: np.ndarray,
    vocabulary_size: int,
) -> tuple[Any, ...]:
    """Return the arguments of ``draw_rows`` contiguous and in the types of the compiled loop.

    Raises:
        ValueError: a shape does not fit, or a temperature is not above 0.
        TypeError: the logits are not float32.
    """
    if logits.dtype != np.float32:
        raise TypeError(f"logits must be float32, not {logits.dtype}")
    if logits.ndim != 2 or not 1 <= vocabulary_size <= logits.shape[1]:
        raise ValueError(
            f"logits of shape {logits.shape} do not hold rows of {vocabulary_size} ids"
        )
    rows = len(logits)
    if keys.shape != (rows, 4):
        raise ValueError(f"keys must have shape ({rows}, 4), not {keys.shape}")
    columns = {
        "positions": np.ascontiguousarray(positions, dtype=np.uint32),
        "temperature": np.ascontiguousarray(temperature, dtype=np.float64),
        "top_k": np.ascontiguousarray(top_k, dtype=np.int64),
        "top_p": np.ascontiguousarray(top_p, dtype=np.float64),
        "min_p": np.ascontiguousarray(min_p, dtype=np.float64),
    }
    for name, column in columns.items():
        if column.shape != (rows,):
            raise ValueError(f"{name} must have shape ({rows},), not {column.shape}")
    if not (columns["temperature"] > 0).all():
        raise ValueError("temperature must be above 0; there is no greedy draw")
    return (
        np.ascontiguousarray(logits),
        np.ascontiguousarray(keys, dtype=np.uint32),
        *columns.values(),
        np.int64(vocabulary_size),
    )
