"""Which order goes first: deadlines, then fairness between customers."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.orders.policy import HOUR, SECOND
from gateway.orders.priority import URGENT_SHARE, Candidate, ranked
from gateway.store.tables import Unit

NOW = 1_000 * HOUR


def order(name: str, account: str, tokens: float = 1_000, hours: float = 24) -> Candidate:
    return Candidate(name, account, tokens, NOW + round(hours * HOUR))


def names(candidates, served=None, speed=100.0) -> list[str]:
    return [one.order_id for one in ranked(candidates, served or {}, speed, NOW)]


def test_the_customer_with_the_least_goes_first():
    large, small = order("large", "a", 10**6), order("small", "b", 1_000, hours=48)
    assert names([large, small]) == ["large", "small"]
    assert names([large, small], {"a": 5.0}) == ["small", "large"]
    assert names([large, small], {"a": 5.0, "b": 6.0}) == ["large", "small"]


def test_one_customers_orders_go_by_their_windows():
    assert names([order("late", "a", hours=72), order("soon", "a", hours=24)]) == ["soon", "late"]


def test_what_barely_fits_goes_first_and_what_cannot_be_done_any_more_does_not():
    # 24 hours at 100 tokens a second are 8.64 million tokens.
    urgent, other = order("urgent", "a", 8e6), order("other", "b", 4e6)
    assert names([other, urgent], {"a": 1e9}) == ["urgent", "other"]
    assert names([other, replace(urgent, tokens=9e6)], {"a": 1e9}) == ["other", "urgent"]
    # Nobody knows how fast the miners are.
    assert names([other, urgent], {"a": 1e9}, None) == ["other", "urgent"]


def test_what_is_done_in_a_moment_passes():
    # The urgent one has 6,400 s to spare; 64 of them are 6,400 tokens.
    urgent = order("urgent", "a", 8e6)
    assert names([urgent, order("ten lines", "b", 6_000)]) == ["ten lines", "urgent"]
    assert names([urgent, order("more lines", "b", 7_000)]) == ["urgent", "more lines"]


CANDIDATES = st.lists(
    st.builds(
        order,
        st.uuids().map(str),
        st.sampled_from("abc"),
        st.floats(1, 1e8),
        st.floats(-1, 168),
    ),
    max_size=12,
    unique_by=lambda one: one.order_id,
)
SERVED = st.dictionaries(st.sampled_from("abc"), st.floats(0, 1e9))


@given(CANDIDATES, SERVED, st.none() | st.floats(1, 1e6))
def test_nobody_is_left_out_and_the_ranking_is_one(candidates, served, speed):
    found = ranked(candidates, served, speed, NOW)
    assert sorted(one.order_id for one in found) == sorted(one.order_id for one in candidates)
    assert found == ranked(candidates[::-1], served, speed, NOW)


@given(CANDIDATES, SERVED, st.floats(1, 1e6))
def test_whoever_goes_before_an_urgent_order_costs_it_next_to_nothing(candidates, served, speed):
    found = ranked(candidates, served, speed, NOW)

    def left(one):
        return (one.expires_at_ms - NOW) / SECOND

    def is_urgent(one):
        return URGENT_SHARE * left(one) < one.tokens / speed <= left(one)

    urgent = [one for one in found if is_urgent(one)]
    assert urgent == sorted(urgent, key=lambda one: (one.expires_at_ms, one.order_id))
    for place, one in enumerate(found):
        if any(is_urgent(later) for later in found[place:]) and not is_urgent(one):
            spare = min(left(other) - other.tokens / speed for other in urgent)
            assert one.tokens / speed <= 0.01 * spare


@given(CANDIDATES, SERVED)
def test_without_urgent_orders_no_customer_goes_before_one_that_had_less(candidates, served):
    found = ranked(candidates, served, None, NOW)
    figures = [served.get(one.account_id, 0.0) for one in found]
    assert figures == sorted(figures)


@pytest.mark.parametrize("lines", [50, 500])
async def test_fifty_thousand_lines_keep_no_ten_others_waiting(sqlite_world, lines):
    world = sqlite_world
    await world.open_account("other")
    large = await world.place([[1 + place % 90, 2] for place in range(lines)])
    miners = [await world.node("miner") for _ in range(3)]
    for miner in miners:
        await world.prove(miner)
        await world.lease(miner)
        await world.generate(miner)
    small = await world.place([[3, 4]] * 10, account_id="other", hours=48)
    order_of = [(await world.lease(miners[turn % 3])).work.unit_id for turn in range(6)]
    units = {unit.id: unit.order_id for unit in await world.rows(Unit)}
    # Three units of four lines make up the small one; it has had nothing while the other had six.
    assert [units[unit_id] for unit_id in order_of[:3]] == [small.id] * 3
    assert {units[unit_id] for unit_id in order_of[3:]} == {large.id}


async def test_results_are_judged_fairly_too(sqlite_world):
    world = sqlite_world
    await world.open_account("other")
    await world.place([[1 + place % 90, 2] for place in range(24)])
    miner, validator = await world.node("miner"), await world.node("validator")
    await world.prove(miner)
    for _ in range(6):
        await world.generate(miner)
    assert await world.audit(validator) is not None
    small = await world.place([[3, 4]] * 4, account_id="other", hours=48)
    world.now += 1
    await world.generate(miner)
    # It came last, and its customer has had nothing judged.
    lease = await world.lease_audit(validator)
    (unit,) = await world.rows(Unit, Unit.id == lease.work.unit_id)
    assert unit.order_id == small.id
