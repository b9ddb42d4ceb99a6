"""Philox4x32-10, the counter-based generator behind the noise, in plain NumPy.

Source: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC'11. The
same counter and key give the same four words everywhere, in any order and on any device.
"""

import numpy as np

MULTIPLIER_0 = 0xD2511F53
MULTIPLIER_1 = 0xCD9E8D57
WEYL_0 = 0x9E3779B9
WEYL_1 = 0xBB67AE85
ROUNDS = 10

_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


def philox4x32(counter: np.ndarray, key: np.ndarray) -> np.ndarray:
    """Return the four words of each counter under ``key``.

    Args:
        counter: uint32 [..., 4].
        key: uint32 [2].

    Returns:
        uint32 [..., 4].
    """
    x0, x1, x2, x3 = (counter[..., word].astype(np.uint64) for word in range(4))
    k0, k1 = int(key[0]), int(key[1])
    for _ in range(ROUNDS):
        product_0 = x0 * np.uint64(MULTIPLIER_0)
        product_1 = x2 * np.uint64(MULTIPLIER_1)
        x0 = (product_1 >> _HALF) ^ x1 ^ np.uint64(k0)
        x1 = product_1 & _LOW
        x2 = (product_0 >> _HALF) ^ x3 ^ np.uint64(k1)
        x3 = product_0 & _LOW
        k0 = (k0 + WEYL_0) & 0xFFFFFFFF
        k1 = (k1 + WEYL_1) & 0xFFFFFFFF
    return np.stack([x0, x1, x2, x3], axis=-1).astype(np.uint32)
