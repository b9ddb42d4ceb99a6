"""All inclusion paths at once."""

import pytest

from protocol import merkle


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 8, 33])
def test_all_paths_are_the_single_paths_and_lead_to_the_root(count: int):
    leaves = [bytes([place]) * 3 for place in range(count)]
    paths = merkle.paths(leaves)
    assert paths == [merkle.path(leaves, place) for place in range(count)]
    for place, siblings in enumerate(paths):
        found = merkle.root_from_path(leaves[place], place, count, siblings)
        assert found == merkle.root(leaves)
