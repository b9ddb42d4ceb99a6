"""The entropy of a position: what the honest null is conditioned on (the audit, section 3)."""

import numpy as np
from numpy.typing import NDArray


def entropies(logits: NDArray[np.float32], temperature: float) -> NDArray[np.float32]:
    """Return the entropy of softmax(l / T) of each row before any filter, in nats, [R].

    Args:
        logits: float32 [R, V] without NaN or +inf; a row has at least one finite logit.
        temperature: T of the order.
    """
    scaled = logits / np.float32(temperature)
    scaled -= scaled.max(axis=1, keepdims=True)
    masses = np.exp(scaled)
    totals = masses.sum(axis=1)
    # An id of no mass adds nothing: 0 times -inf is 0 here.
    np.maximum(scaled, np.float32(-1e4), out=scaled)
    expected = np.einsum("rv,rv->r", masses, scaled) / totals
    return np.maximum(np.log(totals) - expected, 0)
