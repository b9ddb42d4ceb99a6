"""A network of transformers nodes, started once for all files that use it.

This folder is a package, so that the network stops with its last test and not with the session.
"""

from collections.abc import Iterator

import pytest
from customer import Customer, running

from scripts.up.plans import MinerPlan, NetworkPlan

# A miner without work takes up a new commit at once.
SETTINGS = {"RELIQUARY_MINER_SWITCH_SECONDS": "1"}


@pytest.fixture(scope="package")
def customer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Customer]:
    """Two honest miners in float32 and a validator; each test leaves it as it found it."""
    plan = NetworkPlan(
        data=tmp_path_factory.mktemp("network"),
        port=0,
        miners=(MinerPlan("transformers"),) * 2,
        dtype="float32",
        unit_samples=4,
        settings=SETTINGS,
    )
    with running(plan) as made:
        yield made
