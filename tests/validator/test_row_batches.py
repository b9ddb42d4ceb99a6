"""Batches of rows: whatever stands in one, every token sees its own history and nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from validator.forward import Claim
from validator.row_batches import KEPT_FACTOR, SHARE, Origin, RowBatch, row_batches

Case = tuple[list[list[int]], list[Claim], int]


def seen_by_rows(found: list[RowBatch]) -> list[tuple[int, int, list[int]]]:
    """Return claim, place and the ids that each wanted row sees, by following what is kept."""
    prompt: list[int] = []
    last: list[list[int]] = []
    seen = []
    for batch in found:
        before: list[list[int]] = [[] for _ in batch.tokens]
        if batch.origin is Origin.PROMPT:
            before = [prompt for _ in batch.tokens]
        elif batch.origin is Origin.BATCH:
            before = last
        rows = [kept + own for kept, own in zip(before, batch.tokens.tolist(), strict=True)]
        assert {len(kept) for kept in before} == {batch.before}
        wanted = zip(batch.rows, batch.columns, batch.claims, batch.places, strict=True)
        for row, column, claim, place in wanted:
            seen.append((int(claim), int(place), rows[row][: batch.before + column + 1]))
        last = rows if batch.keep else []
        if batch.is_prompt:
            (prompt,) = rows
    return seen


@st.composite
def cases(draw: st.DrawFn) -> Case:
    ids = st.integers(1, 9)
    prompts = draw(st.lists(st.lists(ids, min_size=1, max_size=12), min_size=1, max_size=4))
    claim = st.builds(
        Claim, st.integers(0, len(prompts) - 1), st.lists(ids, min_size=1, max_size=15)
    )
    return prompts, draw(st.lists(claim, min_size=1, max_size=6)), draw(st.integers(1, 200))


@given(cases())
def test_every_row_sees_its_own_history(case: Case):
    prompts, claims, budget = case
    found = list(row_batches(prompts, claims, budget))
    expected = [
        (number, place, [*prompts[claim.prompt], *claim.ids[:place]])
        for number, claim in enumerate(claims)
        for place in range(len(claim.ids))
    ]
    assert sorted(seen_by_rows(found)) == sorted(expected)


@given(cases())
def test_memory_is_bounded(case: Case):
    prompts, claims, budget = case
    for batch in row_batches(prompts, claims, budget):
        rows, length = batch.tokens.shape
        assert 0 < rows * length <= budget
        assert rows == 1 or rows * (batch.before + length) <= KEPT_FACTOR * budget
        assert rows == 1 or not batch.keep


@given(cases())
def test_padding_is_never_most_of_a_row(case: Case):
    # Ids are never 0, which pads.
    for batch in row_batches(*case):
        assert (2 * (batch.tokens > 0).sum(axis=1) >= batch.tokens.shape[1]).all()


@pytest.mark.parametrize(("samples", "times"), [(1, 1), (2, 2), (30, 1)])
def test_a_prompt_is_computed_once_where_that_saves_work(samples: int, times: int):
    budget, prompt = 256, [7] * 20
    assert ((samples - 1) * len(prompt) > SHARE * budget) == (samples == 30)
    batches = row_batches([prompt], [Claim(0, [1, 2, 3])] * samples, budget)
    assert sum(int((batch.tokens == 7).sum()) for batch in batches) == times * len(prompt)


@pytest.mark.parametrize(("prompt", "ids"), [([], [1]), ([1], [])])
def test_nothing_predicts_the_first_token_of_nothing(prompt: list[int], ids: list[int]):
    with pytest.raises(ValueError, match="at least one id"):
        list(row_batches([prompt], [Claim(0, ids)], 8))
