"""Packs: whatever is packed, every token sees its own history and nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from validator.forward import Claim
from validator.packing import Pack, packs


def seen_by_rows(found: list[Pack]) -> list[tuple[int, int, list[int]]]:
    """Return claim, place and the ids that each wanted row sees, by following the segments."""
    kept: list[int] = []
    seen = []
    for pack in found:
        keys = kept[: pack.kept] + pack.tokens.tolist()
        for row, claim, place in zip(pack.rows, pack.claims, pack.places, strict=True):
            (segment,) = [s for s in pack.segments if s.start <= row < s.stop]
            prefix = keys[segment.prefix[0] : segment.prefix[1]]
            own = pack.tokens[segment.start : row + 1].tolist()
            assert pack.positions[row] == len(prefix) + len(own) - 1
            seen.append((int(claim), int(place), prefix + own))
        kept = keys if pack.keep else kept[: pack.kept]
    return seen


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[list[int]], list[Claim], int]:
    ids = st.integers(0, 9)
    prompts = draw(st.lists(st.lists(ids, min_size=1, max_size=12), min_size=1, max_size=4))
    claim = st.builds(
        Claim, st.integers(0, len(prompts) - 1), st.lists(ids, min_size=1, max_size=15)
    )
    return prompts, draw(st.lists(claim, min_size=1, max_size=6)), draw(st.integers(1, 40))


@given(cases())
def test_every_row_sees_its_own_history(case: tuple[list[list[int]], list[Claim], int]):
    prompts, claims, pack_tokens = case
    found = list(packs(prompts, claims, pack_tokens))
    expected = [
        (number, place, [*prompts[claim.prompt], *claim.ids[:place]])
        for number, claim in enumerate(claims)
        for place in range(len(claim.ids))
    ]
    assert sorted(seen_by_rows(found)) == sorted(expected)
    assert all(0 < pack.tokens.size <= pack_tokens for pack in found)
    for pack in found:
        edges = [0, *(segment.stop for segment in pack.segments)]
        assert [segment.start for segment in pack.segments] == edges[:-1]
        assert edges[-1] == pack.tokens.size


@given(cases())
def test_nothing_is_fed_twice_and_nothing_padded(
    case: tuple[list[list[int]], list[Claim], int],
):
    prompts, claims, pack_tokens = case
    used = {claim.prompt for claim in claims}
    needed = sum(len(prompts[prompt]) for prompt in used)
    needed += sum(len(claim.ids) - 1 for claim in claims)
    assert sum(pack.tokens.size for pack in packs(prompts, claims, pack_tokens)) == needed


@pytest.mark.parametrize(("prompt", "ids"), [([], [1]), ([1], [])])
def test_nothing_predicts_the_first_token_of_nothing(prompt: list[int], ids: list[int]):
    with pytest.raises(ValueError, match="at least one id"):
        list(packs([prompt], [Claim(0, ids)], 8))
