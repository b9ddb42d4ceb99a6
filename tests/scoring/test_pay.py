"""Scores by verified work: fading, failures, convictions, and what is burnt."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.growth import FIRST_LEASES, SAMPLES_FOR_ONE_MORE, leases_allowed
from scoring.pay import MILLION, ONE, Convict, Epoch, PayRule, Work, scores, weights

RULE = PayRule()


def work(hotkey: str, nano: int = 1_000_000, good: int = 10, **failures: int) -> Work:
    counts = {"void": 0, "lapsed": 0} | failures
    return Work(hotkey, f"owner of {hotkey}", nano, good, **counts)


def epochs(*done: list[Work], emission: int | None = None) -> list[Epoch]:
    return [Epoch(number, tuple(each), (), emission) for number, each in enumerate(done)]


def test_a_score_is_the_price_of_verified_work() -> None:
    found = scores(epochs([work("a", 5_000), work("b", 2_000)]), RULE)
    assert found.shares() == {"a": 5_000, "b": 2_000}
    assert found.burnt == 0


def test_a_weight_halves_in_a_day_and_ends_with_the_window() -> None:
    faded = weights(RULE)
    assert (len(faded), faded[0]) == (RULE.window, ONE)
    assert abs(faded[20] - ONE // 2) < ONE // 10_000
    done = epochs([work("a", 10**9)], *[[] for _ in range(RULE.window - 1)])
    assert scores(done, RULE).shares()["a"] == 10**9 * faded[-1] // ONE
    assert scores([*done, Epoch(RULE.window, ())], RULE).shares() == {}


def test_gaps_between_epochs_count_as_epochs() -> None:
    apart = [Epoch(3, (work("a", 10**9),)), Epoch(23, ())]
    assert abs(scores(apart, RULE).shares()["a"] - 10**9 // 2) < 10**5


@pytest.mark.parametrize(
    ("failures", "reliability"),
    [({"void": 1}, MILLION // 2), ({"lapsed": 5}, MILLION // 2), ({"good": 0}, 0)],
)
def test_failures_weigh_against_a_miner(failures: dict[str, int], reliability: int) -> None:
    account = scores(epochs([work("a", 1_000, **failures)]), RULE).accounts["a"]
    assert account.reliability == reliability
    assert account.score == 1_000 * reliability**2 // MILLION**2


def test_a_conviction_takes_what_was_earned_and_the_time_after_it() -> None:
    rule = PayRule(window=10, ban=4)
    caught = Convict("a", "owner of a", 2)
    done = [Epoch(n, (work("a"), work("b")), (caught,) if n >= 2 else ()) for n in range(9)]
    for upto in (3, 4, 5, 6):
        found = scores(done[:upto], rule)
        assert "a" not in found.shares()
        assert found.accounts["a"].banned_until == 6
    # Free again with what it did since, and nothing of what it did before.
    account = scores(done[:7], rule).accounts["a"]
    assert account.banned_until is None
    assert [number for number, _, _ in account.epochs] == [3, 4, 5, 6]


def test_an_owner_answers_for_all_its_hotkeys() -> None:
    other = Work("fresh", "owner of a", 1_000, 10, 0, 0)
    caught = (Convict("a", "owner of a", 0),)
    done = [Epoch(0, (work("a"),), caught), Epoch(1, (other, work("b")), caught)]
    assert list(scores(done, RULE).shares()) == ["b"]


def test_a_conviction_that_is_taken_back_never_was() -> None:
    caught = (Convict("a", "owner of a", 0),)
    done = [Epoch(0, (work("a"),), caught), Epoch(1, (work("a"),))]
    assert scores(done, RULE).shares() == scores(epochs([work("a")], [work("a")]), RULE).shares()


def test_no_more_is_paid_than_work_is_worth() -> None:
    rich = scores(epochs([work("a", 9_000)], emission=100_000), RULE)
    assert rich.shares() == {"a": 9_000}
    # 90 % of 9,000 are 8.1 % of the emission.
    assert rich.burnt == 100_000 * 100 // 90 - 9_000
    assert round(100_000 * 9_000 / (9_000 + rich.burnt)) == 8_100
    poor = scores(epochs([work("a", 200_000)], emission=100_000), RULE)
    assert poor.burnt == 0


def test_an_epoch_of_unknown_emission_burns_nothing() -> None:
    done = [Epoch(0, (work("a", 1),), (), 10**9), Epoch(1, (), (), None)]
    assert scores(done, RULE).burnt == 0


@pytest.mark.parametrize("numbers", [[], [1, 1], [2, 1]])
def test_epochs_out_of_order_are_refused(numbers: list[int]) -> None:
    with pytest.raises(ValueError, match="must rise"):
        scores([Epoch(number, ()) for number in numbers], RULE)


AMOUNTS = st.integers(0, 10**18)
COUNTS = st.integers(0, 10**6)
WORK = st.builds(Work, st.sampled_from("abc"), st.just("o"), AMOUNTS, COUNTS, COUNTS, COUNTS)


@given(st.lists(st.lists(WORK, max_size=4), min_size=1, max_size=5), AMOUNTS)
def test_scores_are_whole_and_never_more_than_was_earned(
    done: list[list[Work]], emission: int
) -> None:
    found = scores(epochs(*done, emission=emission), RULE)
    assert found.burnt >= 0
    for hotkey, account in found.accounts.items():
        assert 0 <= account.reliability <= MILLION
        whole = sum(each.nano for epoch in done for each in epoch if each.hotkey == hotkey)
        assert 0 <= account.score <= whole


@given(st.lists(WORK, min_size=1, max_size=4), WORK)
def test_more_verified_work_is_never_less_pay(done: list[Work], more: Work) -> None:
    more = Work(more.hotkey, more.coldkey, more.nano, more.good, 0, 0)
    before, after = (scores(epochs(each), RULE) for each in (done, [*done, more]))
    assert after.accounts[more.hotkey].score >= before.shares().get(more.hotkey, 0)


@given(st.integers(0, 10**9))
def test_an_owner_grows_with_what_was_verified_of_it(verified: int) -> None:
    assert leases_allowed(verified) >= leases_allowed(0) == FIRST_LEASES
    assert leases_allowed(verified + SAMPLES_FOR_ONE_MORE) == leases_allowed(verified) + 1
