"""Simulate every strategy in every market, and show what it earns beside honesty."""

import sys
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

from scoring.pay import PayRule
from scripts.bench.incentives.market import Market, profit_of
from scripts.bench.incentives.strategies import DEVIATIONS, HONEST

MARKETS = {
    "emission worth 3 x the work": Market(emission=3.0),
    "emission worth 0.8 x the work": Market(emission=0.8),
}
UNCAPPED = {"3 x, worth unknown: no cap": Market(emission=3.0, capped=False)}
NANO = 10**9

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


def gains(market: Market, seeds: range, rule: PayRule) -> dict[str, float]:
    """Return each strategy's profit less that of honesty, in USD an epoch; honesty's own first."""
    honest = np.array([profit_of(HONEST, market, seed, rule) for seed in seeds])
    found = {HONEST.name: float(honest.mean()) / NANO}
    for strategy in DEVIATIONS:
        profits = np.array([profit_of(strategy, market, seed, rule) for seed in seeds])
        found[strategy.name] = float((profits - honest).max()) / NANO
    return found


@app.command()
def main(
    out: Annotated[Path, typer.Option(help="The picture, PNG.")] = Path("incentives.png"),
    seeds: Annotated[int, typer.Option(min=1, help="Worlds of each kind.")] = 3,
    weeks: Annotated[int, typer.Option(min=1, help="Simulated weeks.")] = 3,
) -> None:
    """Simulate what each strategy earns over weeks; the status tells whether honesty is best."""
    rule, found = PayRule(), {}
    for name, market in track((MARKETS | UNCAPPED).items(), "worlds", console=Console(stderr=True)):
        lasting = Market(market.miners, market.demand, market.emission, market.capped, weeks * 140)
        found[name] = gains(lasting, range(seeds), rule)
    shown = Table(title="USD an epoch: honest profit, and what each deviation adds at best")
    shown.add_column("strategy")
    for name in found:
        shown.add_column(name, justify="right")
    for strategy in (HONEST, *DEVIATIONS):
        shown.add_row(strategy.name, *(f"{each[strategy.name]:+.2f}" for each in found.values()))
    Console().print(shown)
    from scripts.bench.incentives.picture import draw_gains

    draw_gains(found, out)
    print(f"picture: {out}")
    paying = [s.name for s in DEVIATIONS if any(found[name][s.name] >= 0 for name in MARKETS)]
    if paying:
        sys.exit(f"pays no less than honesty: {', '.join(paying)}")


if __name__ == "__main__":
    app()
