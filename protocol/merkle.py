"""Merkle trees over samples, as RFC 6962 (section 2.1) builds them over log entries.

A leaf is hashed with a 0x00 prefix and an inner node with 0x01, so neither can pass for the other;
a tree of n leaves splits at the largest power of two below n.
"""

from collections.abc import Sequence
from hashlib import sha256


def leaf_hash(data: bytes) -> bytes:
    """Return the 32-byte hash of a leaf with content ``data``."""
    return sha256(b"\x00" + data).digest()


def root(leaves: Sequence[bytes]) -> bytes:
    """Return the 32-byte root over leaf *contents*; the root of no leaf is SHA-256 of nothing."""
    if not leaves:
        return sha256(b"").digest()
    return _root([leaf_hash(leaf) for leaf in leaves])


def path(leaves: Sequence[bytes], index: int) -> list[bytes]:
    """Return the inclusion path of leaf ``index``: sibling hashes from the leaf up.

    Raises:
        IndexError: there is no such leaf.
    """
    if not 0 <= index < len(leaves):
        raise IndexError(f"leaf {index} of {len(leaves)}")
    return _path([leaf_hash(leaf) for leaf in leaves], index)


def paths(leaves: Sequence[bytes]) -> list[list[bytes]]:
    """Return the inclusion paths of all leaves, each as ``path`` gives it, in n log n hashes."""
    return _paths([leaf_hash(leaf) for leaf in leaves])[1] if leaves else []


def root_from_path(leaf: bytes, index: int, count: int, siblings: Sequence[bytes]) -> bytes:
    """Return the root that ``leaf`` at ``index`` of ``count`` leads to over ``siblings``.

    Raises:
        ValueError: the path has the wrong length for this place in a tree of this size.
    """
    if not 0 <= index < count:
        raise ValueError(f"leaf {index} is not in a tree of {count}")
    remaining = list(siblings)
    result = _climb(leaf_hash(leaf), index, count, remaining)
    if remaining:
        raise ValueError(f"the path is {len(remaining)} hashes too long")
    return result


def _split(count: int) -> int:
    return 1 << ((count - 1).bit_length() - 1)


def _node(left: bytes, right: bytes) -> bytes:
    return sha256(b"\x01" + left + right).digest()


def _root(hashes: Sequence[bytes]) -> bytes:
    if len(hashes) == 1:
        return hashes[0]
    cut = _split(len(hashes))
    return _node(_root(hashes[:cut]), _root(hashes[cut:]))


def _path(hashes: Sequence[bytes], index: int) -> list[bytes]:
    if len(hashes) == 1:
        return []
    cut = _split(len(hashes))
    if index < cut:
        return [*_path(hashes[:cut], index), _root(hashes[cut:])]
    return [*_path(hashes[cut:], index - cut), _root(hashes[:cut])]


def _paths(hashes: Sequence[bytes]) -> tuple[bytes, list[list[bytes]]]:
    """Return a tree's root and the paths of all its leaves."""
    if len(hashes) == 1:
        return hashes[0], [[]]
    cut = _split(len(hashes))
    left_root, left = _paths(hashes[:cut])
    right_root, right = _paths(hashes[cut:])
    for siblings in left:
        siblings.append(right_root)
    for siblings in right:
        siblings.append(left_root)
    return _node(left_root, right_root), left + right


def _climb(node: bytes, index: int, count: int, remaining: list[bytes]) -> bytes:
    if count == 1:
        return node
    if not remaining:
        raise ValueError("the path is too short")
    sibling = remaining.pop()
    cut = _split(count)
    if index < cut:
        return _node(_climb(node, index, cut, remaining), sibling)
    return _node(sibling, _climb(node, index - cut, count - cut, remaining))
