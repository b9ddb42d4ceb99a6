"""Which model a node holds: one rule for both roles."""

import random

import pytest

from protocol.messages import Demand, DemandBoard, LoadedModel
from protocol.placement import Offer, Placement, Standing, choose

NOW = 1_000_000.0
DAY = 86_400.0


def model(name: str) -> LoadedModel:
    return LoadedModel(model=f"org/{name}", revision="a" * 40)


def offer(name: str, ready: int = 1_000, holders: int = 0, coming: int = 0, left: float = DAY):
    return Offer(model(name), ready, coming, holders, NOW + left)


def standing(loaded: str | None, hotkey: str = "one", **values: float) -> Standing:
    held = None if loaded is None else model(loaded)
    times = {"held": 60.0, "idle": 0.0, "patience": 30.0, "loading": 60.0}
    return Standing(hotkey, held, **{**times, **values})


A_BUSY = offer("a", 10**6, holders=1)


@pytest.mark.parametrize(
    ("offers", "node", "chosen"),
    [
        ([], standing(None), None),
        ([offer("a")], standing(None), "a"),
        # What nobody holds comes first, and of that what is ready.
        ([offer("a", 10**9, holders=1), offer("b", 1)], standing(None), "b"),
        ([offer("a", 0, coming=10**9), offer("b", 1)], standing(None), "b"),
        ([offer("a", 10**9, holders=1), offer("b", 0, coming=5)], standing(None), "b"),
        # Sticky: what is loaded stays while there is work of it, and for a while after.
        ([A_BUSY, offer("b", 10**9, holders=1)], standing("a"), "a"),
        ([offer("b", 10**9, holders=1)], standing("a"), "a"),
        ([offer("b", 10**9, holders=1)], standing("a", idle=30.0), "b"),
        # Idle beside work that is meant for others: as long as loading takes, at least.
        ([A_BUSY, offer("b")], standing("a", idle=59.0), "a"),
        ([A_BUSY, offer("b")], standing("a", idle=60.0), "b"),
        ([A_BUSY], standing("a", idle=600.0), "a"),
        # What others have as good as done is worth no loading: 60 s at 10 tokens a second.
        ([offer("b", 1_199, holders=1)], standing("a", idle=90.0, speed=10.0), "a"),
        ([offer("b", 1_200, holders=1)], standing("a", idle=90.0, speed=10.0), "b"),
        # One of several leaves for what nobody holds, once it was worth its own loading.
        ([offer("a", 10**6, holders=2), offer("b")], standing("a"), "b"),
        ([offer("a", 10**6, holders=2), offer("b")], standing("a", held=59.0), "a"),
        ([offer("a", 10**6, holders=2), offer("b", 0, coming=9)], standing("a"), "a"),
        # The only one does after a good slice of time, or where it presses.
        ([A_BUSY, offer("b")], standing("a", held=1_199.0), "a"),
        ([A_BUSY, offer("b")], standing("a", held=1_200.0), "b"),
        ([A_BUSY, offer("b", left=700.0)], standing("a"), "b"),
        ([offer("a", 10**6, holders=1, left=700.0), offer("b", left=700.0)], standing("a"), "a"),
    ],
)
def test_choice(offers, node, chosen):
    assert choose(offers, node, NOW) == (None if chosen is None else model(chosen))


def test_nodes_spread_by_what_each_of_a_model_has_to_do():
    offers = [offer("a", 3_000), offer("b", 1_000), offer("c", 1_000, left=3 * DAY)]
    chosen = [choose(offers, standing(None, str(place)), NOW) for place in range(2_000)]
    counts = [chosen.count(model(name)) for name in "abc"]
    # 3 : 1 : 1/3 by tokens a second that the window leaves.
    for count, share in zip(counts, (9 / 13, 3 / 13, 1 / 13), strict=True):
        assert abs(count / 2_000 - share) < 0.04


def test_any_choice_is_of_the_offers_or_what_is_loaded():
    drawn = random.Random(1)
    for _ in range(2_000):
        offers = [
            offer(name, drawn.choice((0, 1, 10**6)), drawn.randrange(3), drawn.randrange(2), left)
            for name in drawn.sample("abcd", drawn.randrange(5))
            for left in (drawn.uniform(-10, DAY),)
        ]
        loaded = drawn.choice((None, "a", "e"))
        node = standing(loaded, held=drawn.uniform(0, 2_000), idle=drawn.uniform(0, 100))
        chosen = choose(offers, node, NOW)
        with_work = {one.model for one in offers if one.tokens}
        assert chosen == node.loaded or chosen in with_work
        if loaded is None and any(one.tokens and not one.holders for one in offers):
            assert chosen is not None


class Boards:
    """Shows one board after the other, and notes how long it was asked to wait."""

    def __init__(self, *boards: DemandBoard) -> None:
        self.boards = list(boards)
        self.waits: list[float] = []

    async def demand(self, wait_seconds: float = 0) -> DemandBoard:
        self.waits.append(wait_seconds)
        return self.boards.pop(0)


async def test_a_node_waits_at_an_empty_board_and_rests_longer_before_a_full_one(monkeypatch):
    rests: list[float] = []

    async def rested(seconds: float) -> None:
        rests.append(seconds)

    async def told(_: LoadedModel | None) -> None:
        pass

    monkeypatch.setattr("protocol.placement.asyncio.sleep", rested)
    row = Demand(
        model="org/a",
        revision="a" * 40,
        architecture="",
        waiting_samples=1,
        waiting_audits=0,
        deadline=DAY,
    )
    nothing, full = DemandBoard(demands=[]), DemandBoard(demands=[row])
    # What is on the board is at work already: nothing of it waits for this node.
    node = Placement(
        "one",
        30,
        1.0,
        lambda board: [Offer(row.commit, 0, 0, 5, row.deadline) for row in board.demands],
        lambda: 0.0,
        lambda: 0.0,
    )
    boards = Boards(nothing, nothing, nothing, nothing, full, full)
    assert await node.wanted(boards, told) is None
    # As long as there is nothing it hears of the next work at once, but for a breath.
    for _ in range(4):
        await node.rest(boards, 20)
    assert (boards.waits, rests) == ([0, 20, 20, 20, 20], [1, 1, 1])
    assert await node.wanted(boards, told) is None
    for _ in range(6):
        await node.rest(boards, 20)
    assert (boards.waits, rests[3:]) == ([0, 20, 20, 20, 20, 0], [1, 2, 4, 8, 15, 15])
    node.note_loaded(row.commit)
    await node.rest(boards, 20)
    assert rests[-1] == 1
