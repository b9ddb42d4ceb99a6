"""Two models ordered at once on three miners and two validators, in time that is counted in steps.

Faked: the gateway is a table of tokens that wait, a node's work and loading take their time and
nothing else. Real: what a node remembers, announces and chooses by (``Placement``).
"""

import asyncio
import random
from dataclasses import dataclass, field

import pytest

from protocol.messages import Demand, DemandBoard, LoadedModel
from protocol.placement import Offer, Placement

MODELS = tuple(LoadedModel(model=f"org/{name}", revision="a" * 40) for name in "ab")
LOADING, SPEED, BATCH = 120, 100, 2_000
DAY = 86_400


@dataclass
class Network:
    """What waits, by model: for miners, and for validators once it is generated."""

    generate: dict[LoadedModel, int]
    audit: dict[LoadedModel, int] = field(default_factory=lambda: dict.fromkeys(MODELS, 0))
    now: float = 0.0
    nodes: list["Node"] = field(default_factory=list)

    async def demand(self, wait_seconds: float = 0) -> DemandBoard:
        return DemandBoard(
            demands=[
                Demand(
                    model=model.model,
                    revision=model.revision,
                    architecture="",
                    waiting_samples=self.generate[model],
                    waiting_audits=self.audit[model],
                    deadline=DAY,
                    waiting_tokens=self.generate[model],
                    audit_tokens=self.audit[model],
                    miners=self.holders("miner", model),
                    validators=self.holders("validator", model),
                )
                for model in MODELS
                if self.generate[model] or self.audit[model]
            ]
        )

    def holders(self, role: str, model: LoadedModel) -> int:
        return sum(n.role == role and model in (n.loaded, n.loading) for n in self.nodes)


class Node:
    def __init__(self, network: Network, role: str, name: str) -> None:
        self.network, self.role = network, role
        self.loaded: LoadedModel | None = None
        self.loading: LoadedModel | None = None
        self.loads: list[LoadedModel] = []
        self.free_at = 0.0
        self.at_hand = 0

        def clock() -> float:
            return network.now

        self.placement = Placement(name, 30, 0.0, self.offers, clock, clock)

    def offers(self, board: DemandBoard) -> list[Offer]:
        miner = self.role == "miner"
        return [
            Offer(
                row.commit,
                row.waiting_tokens if miner else row.audit_tokens,
                0 if miner else row.waiting_tokens,
                row.miners if miner else row.validators,
                row.deadline,
            )
            for row in board.demands
        ]

    async def intend(self, model: LoadedModel | None) -> None:
        self.loading = model

    async def step(self) -> None:
        if self.network.now < self.free_at:
            return
        if self.at_hand:
            self.finish()
        if self.loading is not None:
            self.loaded, self.loading = self.loading, None
            self.placement.note_loaded(self.loaded, LOADING)
        if self.placement.is_due and await self.place():
            return
        if not self.begin():
            await self.place()

    async def place(self) -> bool:
        wanted = await self.placement.wanted(self.network, self.intend)
        if wanted in (None, self.loaded):
            return False
        self.loaded, self.loading = None, wanted
        self.loads.append(wanted)
        self.free_at = self.network.now + LOADING
        return True

    def begin(self) -> bool:
        waiting = self.network.generate if self.role == "miner" else self.network.audit
        tokens = 0 if self.loaded is None else min(BATCH, waiting[self.loaded])
        if self.loaded is None or not tokens:
            return False
        waiting[self.loaded] -= tokens
        # Audits are some times as fast.
        seconds = tokens / SPEED / (1 if self.role == "miner" else 5)
        self.free_at = self.network.now + seconds
        self.at_hand = tokens
        return True

    def finish(self) -> None:
        seconds = self.at_hand / SPEED / (1 if self.role == "miner" else 5)
        self.placement.note_work(self.at_hand, seconds)
        if self.role == "miner" and self.loaded is not None:
            self.network.audit[self.loaded] += self.at_hand
        self.at_hand = 0


async def run(first: int, second: int, seed: int, validators: int = 2) -> Network:
    network = Network(dict(zip(MODELS, (first, second), strict=True)))
    chance = random.Random(seed)
    network.nodes = [Node(network, "miner", f"{seed} m{place}") for place in range(3)]
    network.nodes += [Node(network, "validator", f"{seed} v{place}") for place in range(validators)]
    while any(n.at_hand for n in network.nodes) or any(
        (*network.generate.values(), *network.audit.values())
    ):
        for node in chance.sample(network.nodes, len(network.nodes)):
            await node.step()
        network.now += 1
        assert network.now < DAY
    return network


def loads(network: Network, role: str) -> int:
    return sum(len(node.loads) for node in network.nodes if node.role == role)


@pytest.mark.parametrize("work", [(500_000, 500_000), (900_000, 100_000), (1_000_000, 5_000)])
@pytest.mark.parametrize("seed", range(3))
async def test_two_models_at_once_end_without_thrashing(work, seed, monkeypatch):
    monkeypatch.setattr("protocol.placement.asyncio.sleep", lambda _: _nothing())
    network = await run(work[0], work[1], seed)
    # Three to begin with, and who is through with one model once helps with the other.
    assert loads(network, "miner") <= (5 if work[0] == work[1] else 4)
    assert loads(network, "validator") <= 4
    assert all(len(node.loads) == len(set(node.loads)) for node in network.nodes)
    # Three miners at 100 tokens a second, some loading, and the last one's tail.
    assert network.now < 2 * sum(work) / 300 + 4 * LOADING


async def test_one_validator_serves_both_by_turns(monkeypatch):
    monkeypatch.setattr("protocol.placement.asyncio.sleep", lambda _: _nothing())
    network = await run(1_000_000, 1_000_000, 1, validators=1)
    # Not a load for each of its thousand units, nor one for each of a miner's.
    assert 2 <= loads(network, "validator") <= network.now / (4 * LOADING)


async def _nothing() -> None:
    return None


async def test_two_that_choose_at_once_part_again():
    """Both see nothing held and take the same; one looks once more and takes the other."""
    network = Network(dict.fromkeys(MODELS, 10_000))
    names = [str(place) for place in range(40)]
    nodes = [Node(network, "miner", name) for name in names]
    # Of nodes that draw the same model first, two.
    firsts = {}
    for node in nodes:
        network.nodes = [node]
        await node.place()
        firsts.setdefault(node.loading, []).append(node)
        node.loading = None
    pair = next(iter(firsts.values()))[:2]
    network.nodes = pair
    for node in pair:
        node.placement._pause = 0.05
    await asyncio.gather(*(node.place() for node in pair))
    assert {node.loading for node in pair} == set(MODELS)
