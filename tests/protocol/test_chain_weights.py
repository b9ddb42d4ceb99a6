from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.chain.base import U16_MAX, Neuron, Snapshot, WeightRow, WeightsRefused
from protocol.chain.weights import NothingToBurnTo, counted, is_applied, to_weights

HOTKEYS = [f"hotkey-{number:02}" for number in range(40)]
BURN = "owner"

scores_of_some = st.dictionaries(st.sampled_from(HOTKEYS), st.integers(0, 10**24), max_size=40)
amounts = st.integers(0, 10**25)


def neuron(hotkey: str, uid: int = 0, block: int = 0) -> Neuron:
    return Neuron(hotkey, "coldkey", uid, block, 0, False)


def within(weights: dict[str, int], share: Fraction, hotkey: str) -> bool:
    """Whether a hotkey's part of the sum of weights is its exact share, but for rounding."""
    total = sum(weights.values())
    return abs(Fraction(weights.get(hotkey, 0), total) - share) <= Fraction(len(HOTKEYS), total)


@given(scores_of_some, amounts)
def test_each_hotkey_has_its_share_and_the_remainder_is_burnt(scores: dict[str, int], burnt: int):
    weights = to_weights(scores, burnt, BURN, [*HOTKEYS, BURN])
    whole = burnt + sum(scores.values())
    if not whole:
        assert weights == {}
        return
    assert max(weights.values()) == U16_MAX
    assert min(weights.values()) > 0
    assert all(within(weights, Fraction(score, whole), key) for key, score in scores.items())
    assert within(weights, Fraction(burnt, whole), BURN)


@given(scores_of_some, amounts, st.sets(st.sampled_from(HOTKEYS)))
def test_what_the_unregistered_earned_is_burnt(
    scores: dict[str, int], burnt: int, registered: set[str]
):
    weights = to_weights(scores, burnt, BURN, registered | {BURN})
    assert set(weights) <= registered | {BURN}
    left = {key: score for key, score in scores.items() if key in registered}
    lost = sum(scores.values()) - sum(left.values())
    assert weights == to_weights(left, burnt + lost, BURN, registered | {BURN})


@given(scores_of_some, st.randoms(use_true_random=False))
def test_the_order_of_the_scores_changes_nothing(scores: dict[str, int], random):
    items = list(scores.items())
    random.shuffle(items)
    there = to_weights(scores, 10**20, BURN, [*HOTKEYS, BURN])
    again = to_weights(dict(items), 10**20, BURN, [BURN, *reversed(HOTKEYS)])
    assert list(there.items()) == list(again.items())


@given(scores_of_some, amounts, st.integers(1, 1_000))
def test_the_unit_of_the_scores_changes_nothing(scores: dict[str, int], burnt: int, factor: int):
    larger = {key: score * factor for key, score in scores.items()}
    everybody = [*HOTKEYS, BURN]
    assert to_weights(scores, burnt, BURN, everybody) == to_weights(
        larger, burnt * factor, BURN, everybody
    )


@given(scores_of_some, amounts, st.integers(1, U16_MAX))
def test_no_share_exceeds_the_largest_allowed(scores: dict[str, int], burnt: int, most: int):
    givers = sum(score > 0 for score in scores.values()) + (burnt > 0)
    everybody = [*HOTKEYS, BURN]
    if givers > 0 and givers * most < U16_MAX:
        with pytest.raises(WeightsRefused, match="the chain needs"):
            to_weights(scores, burnt, BURN, everybody, most)
        return
    weights = to_weights(scores, burnt, BURN, everybody, most)
    if weights:
        # The chain's own test, after its own max-upscaling, which changes nothing here.
        assert max(weights.values()) == U16_MAX
        assert most * sum(weights.values()) >= U16_MAX * U16_MAX


def test_a_cut_share_goes_to_the_others():
    weights = to_weights({"a": 90, "b": 6, "c": 4}, 0, None, ["a", "b", "c"], U16_MAX // 2)
    total = sum(weights.values())
    assert weights["a"] * 2 <= total
    assert weights["a"] / total > 0.49
    assert weights["b"] > weights["c"]


def test_nothing_is_burnt_where_all_is_earned():
    assert to_weights({"a": 3, "b": 1}, 0, None, ["a", "b"]) == {"a": U16_MAX, "b": U16_MAX // 3}


def test_nobody_to_burn_to_is_said():
    for owner in (None, "stranger"):
        with pytest.raises(NothingToBurnTo, match="register it"):
            to_weights({"a": 3}, 1, owner, ["a"])


def test_an_owner_that_mines_keeps_its_own_and_the_burnt():
    assert to_weights({"a": 1, BURN: 1}, 2, BURN, ["a", BURN]) == {
        "a": U16_MAX // 3,
        BURN: U16_MAX,
    }


def test_negative_scores_are_refused():
    with pytest.raises(ValueError, match="negative"):
        to_weights({"a": -1}, 4, BURN, ["a", BURN])


def test_a_newcomer_does_not_inherit_weights():
    neurons = {"old": neuron("old", 0, 5), "back": neuron("back", 1, 12)}
    assert counted({"old": 7, "back": 8, "gone": 9}, neurons, 12) == {"old": 7}


@pytest.mark.parametrize(
    ("row", "applied"),
    [
        (WeightRow(30, 20, {"a": 1, "b": 2}), True),
        (WeightRow(30, 25, {"a": 1, "b": 2}), True),
        (WeightRow(30, 19, {"a": 1, "b": 2}), False),
        (WeightRow(30, 20, {"a": 1, "b": 3}), False),
        (WeightRow(30, 20, {"a": 1}), False),
        (WeightRow(30, 20, {}), False),
    ],
)
def test_weights_are_applied_when_all_who_stayed_have_theirs(row: WeightRow, applied: bool):
    snapshot = Snapshot(30, "00", {"a": neuron("a"), "b": neuron("b", 1)})
    assert is_applied(row, {"a": 1, "b": 2, "left": 5}, snapshot, 20) == applied
