"""A model of linear attention, with a vision tower, through gateway, miner and validator."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from customer import Customer, running, tale_lines
from ended_batch import check_ended

from protocol.architectures import SUPPORTED_ARCHITECTURES
from scripts.hub import publish
from scripts.tiny_model.random_models import make_random
from scripts.up.plans import MinerPlan, NetworkPlan

MODEL = "reliquary/random-qwen3.5"
ARCHITECTURE = "Qwen3_5ForConditionalGeneration"

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


@pytest.fixture
def customer(tmp_path: Path) -> Iterator[Customer]:
    """One miner and one validator."""
    data = tmp_path / "network"
    plan = NetworkPlan(data=data, port=0, miners=(MinerPlan("transformers"),), unit_samples=4)
    with running(plan) as made:
        yield made


def test_a_batch_on_a_model_of_linear_attention(customer: Customer, tmp_path: Path) -> None:
    make_random(
        ARCHITECTURE, tmp_path / "model", hidden=128, layers=4, vocabulary=2_100, head_dim=32
    )
    commit = publish(customer.network.layout.hub, MODEL, tmp_path / "model")
    catalog = httpx.get(f"{customer.network.origin}/api/v1/generation/catalog").json()
    assert catalog == {"architectures": sorted(SUPPORTED_ARCHITECTURES)}
    lines = tale_lines(6, model=MODEL, max_tokens=40, n=2)
    batch = customer.wait(customer.order(lines))
    assert batch.status == "completed"
    output, errors = check_ended(customer.client, batch, [row["custom_id"] for row in lines])
    assert len(output) == 6
    assert errors == []
    order = customer.native(batch, "")
    assert (order["architecture"], order["revision"]) == (ARCHITECTURE, commit)
    receipts = customer.native(batch, "/receipts")
    assert len(receipts) == 12
