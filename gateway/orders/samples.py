"""Which samples a unit holds, and which of them are done.

Sample ``line * n + choice`` of an order is its ordinal. A root unit keeps one bit for each of its
samples, little-endian within a byte; bit 0 is choice 0 of its first line.
"""

import numpy as np

from gateway.store.tables import Unit
from scoring import reputation

UNDECIDED = "."
VERIFIED = reputation.VERIFIED
VOID = reputation.VOID
MISSING = "m"


def ordinals(unit: Unit, n: int) -> np.ndarray:
    """Return the ordinals of a unit's samples, ascending, as int64 of shape [samples]."""
    if unit.ordinals is None:
        return np.arange(unit.first_line * n, unit.end_line * n, dtype=np.int64)
    return np.frombuffer(unit.ordinals, dtype="<u4").astype(np.int64)


def packed_ordinals(values: np.ndarray) -> bytes:
    """Return ordinals as a unit row keeps them."""
    return values.astype("<u4").tobytes()


def no_bits(samples: int) -> bytes:
    """Return the bits of a root unit of which no sample is verified yet."""
    return bytes((samples + 7) // 8)


def read_bits(packed: bytes, samples: int) -> np.ndarray:
    """Return a root unit's bits as booleans of shape [samples]."""
    raw = np.frombuffer(packed, dtype=np.uint8)
    return np.unpackbits(raw, count=samples, bitorder="little").astype(bool)


def pack_bits(bits: np.ndarray) -> bytes:
    """Return booleans as a root unit keeps them."""
    return np.packbits(bits, bitorder="little").tobytes()


def complete_lines(bits: np.ndarray, n: int) -> int:
    """Return how many lines of a root unit have all their ``n`` samples."""
    return int(bits.reshape(-1, n).all(axis=1).sum())
