"""The simulated market: honesty earns most, and what would pay without the cap."""

from dataclasses import replace

import pytest

from scoring.pay import PayRule
from scripts.bench.incentives.market import Market, profit_of
from scripts.bench.incentives.strategies import DEVIATIONS, HONEST, Strategy

RULE = PayRule()
EPOCHS = 60
RICH, POOR = Market(emission=3.0, epochs=EPOCHS), Market(emission=0.8, epochs=EPOCHS)


def gain(strategy: Strategy, market: Market) -> float:
    """What the deviation adds to honesty's profit in the same world."""
    soon = replace(strategy, honest_epochs=min(strategy.honest_epochs, EPOCHS // 3))
    return profit_of(soon, market, 1, RULE) - profit_of(HONEST, market, 1, RULE)


@pytest.mark.parametrize("strategy", DEVIATIONS, ids=[strategy.name for strategy in DEVIATIONS])
def test_every_deviation_earns_less(strategy: Strategy) -> None:
    assert gain(strategy, RICH) < 0
    assert gain(strategy, POOR) < 0


def test_honesty_earns() -> None:
    assert profit_of(HONEST, RICH, 1, RULE) > 0
    assert profit_of(HONEST, POOR, 1, RULE) > 0


@pytest.mark.parametrize("name", ["orders from itself", "repeats orders from itself, cached"])
def test_without_the_cap_ones_own_orders_would_pay(name: str) -> None:
    (strategy,) = [strategy for strategy in DEVIATIONS if strategy.name == name]
    assert gain(strategy, replace(RICH, capped=False)) > 0
