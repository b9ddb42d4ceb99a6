"""The structural rules, each named."""

import pytest

from protocol.messages import SampleReference, Work
from protocol.sampling import Sampling
from validator.structure import check_work, count_void, structural_void


@pytest.fixture
def work() -> Work:
    return Work(
        unit_id="0" * 36,
        model="reliquary/random",
        revision="a" * 40,
        seed=1,
        sampling=Sampling(max_tokens=4),
        vocabulary_size=10,
        end_ids=[8, 9],
        prompts=[[1, 2]],
        samples=[SampleReference(prompt=0, sample_index=k) for k in range(2)],
    )


@pytest.mark.parametrize("ids", [[8], [1, 9], [1, 2, 3, 4], [1, 2, 3, 8]])
def test_legal(work: Work, ids: list[int]):
    assert structural_void(work, ids) is None


@pytest.mark.parametrize(
    ("ids", "rule", "place"),
    [
        ([1, 10], "an id outside the vocabulary", 1),
        ([-1, 8], "an id outside the vocabulary", 0),
        ([1, 2, 3, 4, 8], "more ids than max_tokens", 4),
        ([1, 8, 2, 3], "an end id before the last id", 1),
        ([8, 8], "an end id before the last id", 0),
        ([1, 2, 3], "fewer ids than max_tokens without an end id", 3),
        ([], "fewer ids than max_tokens without an end id", 0),
    ],
)
def test_illegal(work: Work, ids: list[int], rule: str, place: int):
    assert structural_void(work, ids) == (rule, place)


def test_number_of_samples(work: Work):
    assert count_void(work, [[8], [8]]) is None
    assert count_void(work, [[8]]) == "a sample is missing"
    assert count_void(work, [[8], [8], [8]]) == "a sample that was not asked for"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"vocabulary_size": 13}, "a draw over 13 ids"),
        ({"prompts": [[]]}, "without ids"),
        ({"prompts": [[12]]}, "past the model's vocabulary"),
        ({"samples": [SampleReference(prompt=1, sample_index=0)]}, "does not have"),
    ],
)
def test_work_that_does_not_fit_the_model(work: Work, change: dict, message: str):
    check_work(work, 12)
    with pytest.raises(ValueError, match=message):
        check_work(work.model_copy(update=change), 12)
