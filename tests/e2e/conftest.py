"""Real networks: every role a process of its own, the official openai client as the customer."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from customer import Customer, running
from ended_batch import check_all_ended

from scripts.up.network import Network
from scripts.up.plans import MinerPlan, NetworkPlan

Start = Callable[..., Customer]


@pytest.fixture(scope="session")
def vllm_customer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Customer]:
    """Two honest vLLM miners, a cheat, a validator; the repository's own dtype."""
    plan = NetworkPlan(
        data=tmp_path_factory.mktemp("vllm"),
        port=0,
        miners=(MinerPlan("vllm"), MinerPlan("vllm"), MinerPlan("vllm", "own-random-numbers")),
        unit_samples=4,
    )
    with running(plan) as customer:
        yield customer


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a network of transformers miners with what a test sets otherwise."""
    customers: list[Customer] = []

    def begin(*cheats: str | None, **changes: Any) -> Customer:
        miners = tuple(MinerPlan("transformers", cheat) for cheat in cheats or (None,))
        settings = {"data": tmp_path / "network", "port": 0, "unit_samples": 4} | changes
        network = Network(NetworkPlan(miners=miners, **settings), print)
        network.start()
        customers.append(Customer(network))
        return customers[-1]

    yield begin
    try:
        for customer in customers:
            check_all_ended(customer.client)
    finally:
        for customer in customers:
            customer.network.stop()
