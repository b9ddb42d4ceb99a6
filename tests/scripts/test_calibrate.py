"""Calibration: bounds that hold, strata that are large enough, a null with clustered margins."""

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

from scoring.evidence import Trail
from scoring.profile import BINS, EDGES, MIN_STRATUM_TOKENS, ONE, Profile, Side
from scoring.sample_rule import Ground, convicts, trail_after
from scripts.bench.power.streams import is_void, power
from scripts.calibrate.bounds import raised, tail_bounds
from scripts.calibrate.making import Origin, make_profile
from scripts.calibrate.measure import Seen
from scripts.calibrate.picture import draw_profile

SIDE = Side(engine="vllm", dtype="bfloat16", head_dtype="float32", device="cpu")
ORIGIN = Origin(
    family="a/model", miner=SIDE, validator=SIDE, measured="2026-01-01", model="a/model"
)
RATE = 0.003


def clustered(numbers: np.random.Generator, samples: int, longest: int) -> list[Seen]:
    """Honest samples of a made-up model: some texts have many near ties, most have few."""
    found = []
    for _ in range(samples):
        tokens = int(numbers.integers(1, longest))
        entropies = numbers.gamma(1.0, 1.0, tokens).astype(np.float32)
        # A sample's own rate spreads by a factor of some 2 around the mean, and with the entropy.
        rate = RATE * numbers.gamma(2.0, 0.5) * np.minimum(entropies, 3)
        odd = numbers.random(tokens) < rate
        margins = np.where(odd, numbers.exponential(0.02, tokens), 0.0)
        found.append(Seen(margins, entropies, odd))
    return found


@pytest.fixture(scope="module")
def profile() -> Profile:
    return make_profile(clustered(np.random.default_rng(1), 2_500, 800), ORIGIN)


@pytest.mark.parametrize("exceeding", [0, 1, 7, 40])
def test_bounds_are_those_of_clopper_and_pearson(exceeding: int) -> None:
    counts = [10_000 - exceeding, exceeding, *[0] * (BINS - 2)]
    bound = tail_bounds(counts, 0.01)[0] / ONE
    # At the bound, so few or fewer are seen with the corrected probability.
    assert binom.cdf(exceeding, 10_000, bound) == pytest.approx(0.01 / (BINS - 1), rel=1e-3)


def test_bounds_never_rise_and_end_at_one() -> None:
    tails = tail_bounds([0, *[5] * (BINS - 1)], 0.01)
    assert tails[0] == ONE
    assert tails == sorted(tails, reverse=True)
    assert raised([ONE, ONE // 2, 10], 150) == [ONE, ONE // 4 * 3, 15]


def test_strata_are_large_enough_and_rise(profile: Profile) -> None:
    assert profile.convicts
    assert len(profile.strata) > 2
    assert min(stratum.tokens for stratum in profile.strata) >= MIN_STRATUM_TOKENS
    shares = [1 - stratum.counts[0] / stratum.tokens for stratum in profile.strata]
    assert shares == sorted(shares)


def test_clustering_raises_the_bounds(profile: Profile) -> None:
    assert all(stratum.lift_percent > 105 for stratum in profile.strata)
    even = make_profile(
        [
            Seen(np.where(odd, 0.02, 0.0), np.ones(400, np.float32), odd)
            for odd in np.random.default_rng(2).random((1_000, 400)) < 0.01
        ],
        ORIGIN,
    )
    assert even.strata[0].lift_percent < 105


def test_honest_samples_of_all_lengths_are_not_voided_nor_their_miner_convicted(
    profile: Profile,
) -> None:
    """4,000 samples: at the stated bound of 1e-4 two or more voids have a chance of .06."""
    fresh = clustered(np.random.default_rng(3), 4_000, 2_000)
    assert sum(is_void(profile, sample) for sample in fresh) <= 1
    trail = Trail.empty()
    for sample in fresh:
        places = np.flatnonzero(sample.margins)
        strata = profile.strata_of(sample.entropies[places])
        bins = 1 + np.searchsorted(np.array(EDGES), sample.margins[places])
        marks = list(zip(places.tolist(), strata.tolist(), bins.tolist(), strict=True))
        trail = trail_after(trail, profile, len(sample.margins), marks)
    assert not convicts(trail, Ground.MEASURED)


def test_power_counts_tokens_to_each_bound(profile: Profile) -> None:
    numbers = np.random.default_rng(4)
    cheat = [
        Seen(np.where(odd, 2.0, 0.0), np.ones(200, np.float32), odd)
        for odd in numbers.random((20, 200)) < 0.3
    ]
    found = power(profile, cheat, runs=10)
    medians = [found.needed[bound].median for bound in (1e4, 1e6, 1e9)]
    assert medians == sorted(medians)
    assert medians[-1] < 60
    assert found.void == 1
    # No evidence is faster than that which knows the cheat, and this one is not far behind.
    assert found.at_best[1e6] < found.needed[1e6].median < 4 * found.at_best[1e6]
    honest = power(profile, clustered(numbers, 50, 300), runs=5)
    assert honest.needed[1e4].median == float("inf")
    assert honest.at_best[1e6] > 10_000


def test_the_picture_is_one(profile: Profile, tmp_path: Path) -> None:
    draw_profile(profile, tmp_path / "p.png")
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
