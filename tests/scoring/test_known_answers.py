"""Known answers: what is spliced, what counts, and who is found out."""

import random

import pytest

from scoring.known_answers import (
    ENOUGH,
    SPLICED_TOKENS,
    Tally,
    is_found_out,
    known_samples,
    tally,
)

END = 1_000


def answers(rng: random.Random, number: int) -> list[list[int]]:
    return [
        [*(rng.randrange(END) for _ in range(rng.randrange(1, 80))), END] for _ in range(number)
    ]


@pytest.mark.parametrize("seed", range(20))
def test_spliced_samples_are_legal_and_of_two(seed: int) -> None:
    rng = random.Random(seed)
    samples = answers(rng, 32)
    found = known_samples(samples, rng.randbytes(32))
    spliced = 0
    for own, other, known in zip(samples, [*samples[1:], samples[0]], found, strict=True):
        if known.letter == "v":
            assert known.ids == own
            continue
        spliced += 1
        cut = len(known.ids)
        while cut and known.ids[cut - 1 :] == other[cut - 1 :]:
            cut -= 1
        assert known.ids[:cut] == own[:cut] and cut <= len(own) // 2
        assert len(known.ids) - cut >= SPLICED_TOKENS
        assert known.ids.index(END) == len(known.ids) - 1
    assert 4 <= spliced <= 28


def test_short_samples_and_a_single_one_stay_as_they_are() -> None:
    short = [[place, END] for place in range(8)]
    alone = [list(range(50))]
    for samples in (short, alone):
        for seed in range(8):
            found = known_samples(samples, bytes([seed]) * 32)
            assert [(one.ids, one.letter) for one in found] == [(ids, "v") for ids in samples]


def test_what_nobody_could_judge_is_no_answer() -> None:
    assert tally("vvxxvx", "vx.vvx") == Tally(2, 1, 3, 1)


@pytest.mark.parametrize(
    ("found", "out"),
    [
        (Tally(ENOUGH, ENOUGH, ENOUGH, 0), True),
        (Tally(ENOUGH, 0, ENOUGH, ENOUGH), True),
        (Tally(ENOUGH - 1, ENOUGH - 1), False),
        (Tally(ENOUGH, ENOUGH // 3), False),
        (Tally(ENOUGH, ENOUGH // 3 + 1), True),
        (Tally(), False),
    ],
)
def test_who_is_found_out(found: Tally, out: bool) -> None:
    assert is_found_out(found) is out


def test_an_honest_owner_is_hardly_ever_found_out() -> None:
    """One in twenty spliced samples is legal by chance; its record is looked at all the time."""
    rng = random.Random(1)
    found = 0
    for _ in range(300):
        void = passed = 0
        for _ in range(200):
            void, passed = void + 1, passed + (rng.random() < 0.05)
            found += is_found_out(Tally(void, passed))
    assert found == 0
