"""The draw key of a sample (the forced draw, section 1)."""

from collections.abc import Sequence
from hashlib import sha256

import numpy as np

from protocol.sampling import SEED_LIMIT

DOMAIN = b"reliquary-draw/1"


def prompt_digest(prompt_ids: Sequence[int]) -> bytes:
    """Return SHA-256 over the prompt's token ids, u32 little-endian, concatenated.

    Raises:
        ValueError: an id does not fit 32 bits.
    """
    ids = np.asarray(prompt_ids, dtype=np.int64)
    if ids.size and (ids.min() < 0 or ids.max() >= 2**32):
        raise ValueError("prompt token ids lie in 0 .. 2^32 - 1")
    return sha256(ids.astype("<u4").tobytes()).digest()


def draw_key(revision: str, seed: int, digest: bytes, sample_index: int) -> bytes:
    """Return the 32-byte key K of a sample.

    Args:
        revision: the model commit, 40 lower-case hex digits.
        seed: the order's seed, 0 .. 2^53 - 1.
        digest: ``prompt_digest`` of the prompt, 32 bytes.
        sample_index: counts the samples of one prompt, 0 .. 2^32 - 1.

    Raises:
        ValueError: a field is out of its range; no two inputs may share an encoding.
    """
    if len(revision) != 40 or not set(revision) <= set("0123456789abcdef"):
        raise ValueError(f"revision must be 40 lower-case hex digits, not {revision[:60]!r}")
    if not 0 <= seed < SEED_LIMIT:
        raise ValueError(f"seed must lie in 0 .. 2^53 - 1, not {seed}")
    if len(digest) != 32:
        raise ValueError(f"the prompt digest has 32 bytes, not {len(digest)}")
    if not 0 <= sample_index < 2**32:
        raise ValueError(f"sample_index must lie in 0 .. 2^32 - 1, not {sample_index}")
    fields = (
        DOMAIN,
        revision.encode("ascii"),
        seed.to_bytes(8, "big"),
        digest,
        sample_index.to_bytes(4, "big"),
    )
    return sha256(b"".join(fields)).digest()


def key_words(key: bytes) -> np.ndarray:
    """Return the four u32 words of a key that the noise uses, shape [4].

    Words 0 and 1 are Philox's key, words 2 and 3 the last two of its counter.
    """
    return np.frombuffer(key[:16], dtype="<u4").astype(np.uint32)
