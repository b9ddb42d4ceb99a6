"""The evidence: its bounds under an honest null, and how fast it grows under a dishonest one."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scoring.evidence import BLOCK, RATES, Trail, extend, log_factors, log_gains
from scoring.profile import BINS, EDGES, Profile, bin_of, bins_of
from scoring.published import published
from scoring.sample_rule import Ground, convicts, judge_sample, single_bins, trail_after
from tests.support.profiles import ASSUMED, made_profile

HONEST = [0.995, 0.002, 0.0015, 0.001, 0.0004, 0.0001]
MASSES = np.array(HONEST + [0.0] * (BINS - len(HONEST)))
PROFILE = made_profile([2_000_000, 2_000_000], [MASSES, MASSES])


def bounds_of(profile: Profile) -> tuple[tuple[int, ...], ...]:
    return tuple(stratum.tails for stratum in profile.strata)


def _plain_evidence(profile: Profile, strata: list[int], bins: list[int]) -> list[float]:
    """E after every token as the definition reads: all products, one by one."""
    gains = np.exp(log_gains(bounds_of(profile)))
    products: dict[tuple[float, int], float] = {}
    found: list[float] = []
    for token, (stratum, found_bin) in enumerate(zip(strata, bins, strict=True)):
        if token % BLOCK == 0:
            products |= {(rate, token // BLOCK): 1.0 for rate in RATES}
        for rate, block in products:
            products[rate, block] *= 1 - rate + rate * gains[stratum, found_bin]
        begun = token // BLOCK + 1
        total = 1 / (begun + 1)
        for (_, block), product in products.items():
            total += product / len(RATES) / ((block + 1) * (block + 2))
        found.append(math.log(total))
    return found


@given(
    bins=st.lists(st.integers(0, BINS - 1), min_size=1, max_size=150),
    cut=st.integers(0, 150),
    seed=st.integers(0, 99),
)
@settings(max_examples=60)
def test_evidence_is_the_mixture_of_products_however_it_is_cut(
    bins: list[int], cut: int, seed: int
) -> None:
    strata = np.random.default_rng(seed).integers(0, 2, len(bins))
    factors = log_factors(PROFILE, strata, np.array(bins))
    first, early = extend(Trail.empty(), factors[:, :cut])
    whole, late = extend(first, factors[:, cut:])
    found = np.concatenate([early, late])
    assert found == pytest.approx(_plain_evidence(PROFILE, strata.tolist(), bins), abs=1e-9)
    assert whole.tokens == len(bins)
    assert whole.peak == pytest.approx(max(0.0, found.max()))


@given(
    counts=st.lists(st.integers(0, 300), min_size=BINS - 1, max_size=BINS - 1),
    shrink=st.lists(st.floats(0, 1), min_size=BINS - 1, max_size=BINS - 1),
)
@settings(max_examples=200)
def test_no_null_below_the_bounds_expects_more_than_one(
    counts: list[int], shrink: list[float]
) -> None:
    masses = np.array([100_000, *counts]) / (100_000 + sum(counts))
    profile = made_profile([100_000], [masses])
    gains = np.exp(log_gains(bounds_of(profile)))[0]
    assert (np.diff(gains) >= 0).all()
    # Any tails below the bounds that do not rise are a null that the profile allows.
    tails = np.minimum.accumulate(profile.tails[0, 1:] * np.array(shrink))
    null = -np.diff(np.concatenate([[1.0], tails, [0.0]]))
    assert null @ gains <= 1 + 1e-9
    worst = -np.diff(np.concatenate([profile.tails[0], [0.0]]))
    assert worst @ gains == pytest.approx(1)


def test_false_voids_and_convictions_stay_below_their_bounds() -> None:
    """Honest tokens at the bounds themselves, each run stopped at its worst time."""
    numbers = np.random.default_rng(20)
    tails = PROFILE.tails[0]
    null = -np.diff(np.concatenate([tails, [0.0]]))
    runs, length = 4_000, 256
    passed = 0
    for _ in range(runs):
        bins = numbers.choice(BINS, length, p=null)
        _, evidence = extend(Trail.empty(), log_factors(PROFILE, np.zeros(length, np.int64), bins))
        passed += bool((evidence >= math.log(100)).any())
    # At most one run in 100 may pass 100; four standard deviations above 40 are 65.
    assert passed <= 65


def test_a_dishonest_tail_is_found_as_fast_after_an_honest_prefix() -> None:
    numbers = np.random.default_rng(7)
    cheat = np.full(BINS, 0.5 / (BINS - 1))
    cheat[0] = 0.5

    def needed(prefix: int) -> float:
        found = []
        for _ in range(30):
            bins = np.concatenate(
                [numbers.choice(BINS, prefix, p=MASSES), numbers.choice(BINS, 200, p=cheat)]
            )
            strata = np.zeros(len(bins), np.int64)
            _, evidence = extend(Trail.empty(), log_factors(PROFILE, strata, bins))
            found.append(np.flatnonzero(evidence >= math.log(1e6))[0] - prefix + 1)
        return float(np.median(found))

    assert needed(16_000) <= needed(0) + 4


def marks(bins: np.ndarray) -> list[tuple[int, int, int]]:
    return [(int(place), 0, int(bins[place])) for place in np.flatnonzero(bins)]


def test_a_single_token_voids_a_short_sample_where_the_profile_is_large_enough() -> None:
    found = judge_sample(PROFILE, 3, [(1, 0, BINS - 1)])
    assert found.violation is not None
    assert (found.violation.position, found.abstained) == (1, False)


def test_the_single_token_rule_abstains_on_a_small_profile_and_says_so() -> None:
    small = made_profile([80_000], [MASSES])
    found = judge_sample(small, 3, [(1, 0, 7)])
    assert (found.violation, found.abstained) == (None, True)
    # No profile is so small that a margin past every bin's edge passes.
    assert single_bins(small, 3)[0] == BINS - 1


@pytest.mark.parametrize("profile", published(), ids=lambda one: one.family)
@pytest.mark.parametrize(("tokens", "position"), [(10, 9), (1_000, 100), (40_000, 39_000)])
def test_no_published_profile_passes_a_token_that_no_rounding_explains(
    profile: Profile, tokens: int, position: int
) -> None:
    for stratum in range(len(profile.strata)):
        found = judge_sample(profile, tokens, [(position, stratum, BINS - 1)])
        assert found.violation is not None
        assert found.violation.position == position


def test_honest_samples_pass() -> None:
    numbers = np.random.default_rng(3)
    for length in (1, 5, 40, 5_000):
        bins = numbers.choice(BINS, length, p=MASSES)
        assert judge_sample(PROFILE, length, marks(bins)).violation is None


def test_marks_behind_the_violation_change_nothing() -> None:
    numbers = np.random.default_rng(5)
    bins = numbers.choice(BINS, 300, p=np.full(BINS, 1 / BINS))
    whole = judge_sample(PROFILE, 300, marks(bins)).violation
    assert whole is not None
    upto = [mark for mark in marks(bins) if mark[0] <= whole.position]
    assert judge_sample(PROFILE, 300, upto).violation == whole


def test_a_miner_is_convicted_by_many_small_margins_of_samples_that_pass() -> None:
    """One margin in 50 tokens voids no sample of 50, but no honest miner goes on like that."""
    trail, sample = Trail.empty(), [(20, 0, 5)]
    for _ in range(400):
        assert judge_sample(PROFILE, 50, sample).violation is None
        trail = trail_after(trail, PROFILE, 50, sample)
    assert convicts(trail, Ground.MEASURED)


def test_a_small_profile_never_convicts() -> None:
    assert PROFILE.convicts
    assert not made_profile([79_999], [MASSES]).convicts
    assert not ASSUMED.convicts


def test_bins_hold_their_upper_edges() -> None:
    margins = [0.0, 1e-9, EDGES[0], EDGES[0] * 1.001, EDGES[-1], EDGES[-1] + 1e-6, 16.0]
    expected = [0, 1, 1, 2, BINS - 2, BINS - 1, BINS - 1]
    assert bins_of(np.array(margins)).tolist() == expected
    assert [bin_of(margin) for margin in margins] == expected
