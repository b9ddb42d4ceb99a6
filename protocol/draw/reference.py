"""The forced draw (section 3) as one reads it: float64 NumPy, one row at a time.

Every faster form is held to this one.
"""

import math

import numpy as np

from protocol.draw.noise import gumbel
from protocol.sampling import Sampling

__all__ = ["draw", "gumbel", "kept", "scores"]


def kept(logits: np.ndarray, sampling: Sampling) -> np.ndarray:
    """Return which ids the filters keep: min_p, then top_k, then top_p.

    Args:
        logits: [V], the model's logits of ids 0 .. V-1.
        sampling: the order's sampling.

    Returns:
        bool [V]; at least one id is kept.

    Raises:
        ValueError: the logits are not a distribution (see ``check_logits``).
    """
    logits = check_logits(logits)
    keep = np.ones(len(logits), dtype=bool)
    if sampling.min_p > 0:
        keep &= logits >= logits.max() + sampling.temperature * math.log(sampling.min_p)
    if 0 < sampling.top_k < keep.sum():
        keep &= logits >= np.sort(logits[keep])[-sampling.top_k]
    if sampling.top_p < 1:
        keep &= _nucleus(np.where(keep, logits, -np.inf), sampling)
    return keep


def scores(logits: np.ndarray, key: bytes, position: int, temperature: float) -> np.ndarray:
    """Return the perturbed logits ``l + T g`` of all ids, float64 [V]."""
    logits = np.asarray(logits, dtype=np.float64)
    return logits + temperature * gumbel(key, position, np.arange(len(logits)))


def draw(logits: np.ndarray, key: bytes, position: int, sampling: Sampling) -> int:
    """Return the id that is due at ``position``: the kept one with the largest score.

    Args:
        logits: [V], the model's logits of ids 0 .. V-1.
        key: the sample's 32-byte draw key.
        position: 0 is the first completion token.
        sampling: the order's sampling.

    Raises:
        ValueError: the logits are not a distribution, or the position does not fit 32 bits.
    """
    keep = kept(logits, sampling)
    perturbed = scores(logits, key, position, sampling.temperature)
    return int(np.argmax(np.where(keep, perturbed, -np.inf)))


def check_logits(logits: np.ndarray) -> np.ndarray:
    """Return ``logits`` as float64 [V]; -inf stands for an impossible id.

    Raises:
        ValueError: they are no row, hold NaN or +inf, or every one of them is -inf.
    """
    logits = np.asarray(logits, dtype=np.float64)
    if logits.ndim != 1 or logits.size == 0:
        raise ValueError(f"logits must be one row of ids, not of shape {logits.shape}")
    if not np.isfinite(logits.max()):
        raise ValueError("logits must not hold NaN or +inf, and one of them must be finite")
    return logits


def _nucleus(logits: np.ndarray, sampling: Sampling) -> np.ndarray:
    """Return bool [V]: the mass strictly ahead of the id is below top_p."""
    order = np.argsort(-logits, kind="stable")
    with np.errstate(over="ignore"):
        mass = np.exp((logits[order] - logits.max()) / sampling.temperature)
    ahead = np.concatenate([[0.0], np.cumsum(mass)[:-1]])
    inside = np.empty(len(logits), dtype=bool)
    inside[order] = ahead < sampling.top_p * mass.sum()
    return inside
