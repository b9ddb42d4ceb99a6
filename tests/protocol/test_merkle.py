"""Merkle trees: RFC 6962 by its own recursive text, known answers, and flipped bits."""

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.merkle import leaf_hash, path, root, root_from_path

# Roots over the first n of these leaves, published with Certificate Transparency's own tests.
LEAVES = [
    b"",
    b"\x00",
    b"\x10",
    bytes.fromhex("2021"),
    bytes.fromhex("3031"),
    bytes.fromhex("40414243"),
    bytes.fromhex("5051525354555657"),
    bytes.fromhex("606162636465666768696a6b6c6d6e6f"),
]
ROOTS = [
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]

leaf_lists = st.lists(st.binary(max_size=6), min_size=1, max_size=40)


def naive_root(leaves: list[bytes]) -> bytes:
    """MTH of RFC 6962, section 2.1, as it is written there."""
    if not leaves:
        return sha256(b"").digest()
    if len(leaves) == 1:
        return sha256(b"\x00" + leaves[0]).digest()
    cut = 1
    while cut * 2 < len(leaves):
        cut *= 2
    return sha256(b"\x01" + naive_root(leaves[:cut]) + naive_root(leaves[cut:])).digest()


def naive_path(index: int, leaves: list[bytes]) -> list[bytes]:
    """PATH of RFC 6962, section 2.1.1."""
    if len(leaves) == 1:
        return []
    cut = 1
    while cut * 2 < len(leaves):
        cut *= 2
    if index < cut:
        return [*naive_path(index, leaves[:cut]), naive_root(leaves[cut:])]
    return [*naive_path(index - cut, leaves[cut:]), naive_root(leaves[:cut])]


@pytest.mark.parametrize("count", range(9))
def test_published_roots(count: int):
    assert root(LEAVES[:count]).hex() == ROOTS[count]


def test_a_leaf_is_no_node():
    left, right = leaf_hash(b"a"), leaf_hash(b"b")
    assert leaf_hash(left + right) != root([b"a", b"b"])


@given(leaves=leaf_lists)
def test_roots_are_the_recursive_ones(leaves: list[bytes]):
    assert root(leaves) == naive_root(leaves)


@given(leaves=leaf_lists, data=st.data())
def test_paths_are_the_recursive_ones_and_lead_to_the_root(leaves: list[bytes], data):
    index = data.draw(st.integers(0, len(leaves) - 1))
    siblings = path(leaves, index)
    assert siblings == naive_path(index, leaves)
    assert root_from_path(leaves[index], index, len(leaves), siblings) == root(leaves)


@given(leaves=leaf_lists, data=st.data())
def test_a_flipped_bit_leads_elsewhere(leaves: list[bytes], data):
    index = data.draw(st.integers(0, len(leaves) - 1))
    pieces = [leaves[index], *path(leaves, index)]
    piece = data.draw(st.integers(0, len(pieces) - 1).filter(lambda i: pieces[i]))
    bit = data.draw(st.integers(0, 8 * len(pieces[piece]) - 1))
    flipped = bytearray(pieces[piece])
    flipped[bit // 8] ^= 1 << bit % 8
    pieces[piece] = bytes(flipped)
    assert root_from_path(pieces[0], index, len(leaves), pieces[1:]) != root(leaves)


@given(leaves=st.lists(st.binary(max_size=6), min_size=2, max_size=40, unique=True), data=st.data())
def test_a_path_holds_at_its_own_index_alone(leaves: list[bytes], data):
    index = data.draw(st.integers(0, len(leaves) - 1))
    other = data.draw(st.integers(0, len(leaves) - 1).filter(lambda place: place != index))
    siblings = path(leaves, index)
    try:
        found = root_from_path(leaves[index], other, len(leaves), siblings)
    except ValueError:
        return
    assert found != root(leaves)


@given(leaves=leaf_lists, extra=st.binary(min_size=32, max_size=32))
def test_a_path_of_the_wrong_length_is_refused(leaves: list[bytes], extra: bytes):
    siblings = path(leaves, 0)
    with pytest.raises(ValueError, match="1 hashes too long"):
        root_from_path(leaves[0], 0, len(leaves), [*siblings, extra])
    if siblings:
        with pytest.raises(ValueError, match="too short"):
            root_from_path(leaves[0], 0, len(leaves), siblings[1:])


@pytest.mark.parametrize("index", [-1, 3])
def test_a_leaf_that_is_not_there(index: int):
    with pytest.raises(IndexError):
        path([b"a", b"b", b"c"], index)
    with pytest.raises(ValueError, match="not in a tree of 3"):
        root_from_path(b"a", index, 3, [])
