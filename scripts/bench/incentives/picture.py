"""The gains of all strategies as a picture."""

from collections.abc import Mapping
from pathlib import Path

import matplotlib

from scripts.bench.incentives.strategies import DEVIATIONS

matplotlib.use("Agg")


def draw_gains(found: Mapping[str, Mapping[str, float]], path: Path) -> None:
    """Write a PNG with a bar for each strategy in each market, in USD an epoch."""
    from matplotlib import pyplot

    names = [strategy.name for strategy in DEVIATIONS]
    height = 0.8 / len(found)
    figure, axes = pyplot.subplots(figsize=(9, 0.5 * len(names) + 1.6), layout="constrained")
    for place, (market, gains) in enumerate(found.items()):
        rows = [row + (place - (len(found) - 1) / 2) * height for row in range(len(names))]
        axes.barh(rows, [gains[name] for name in names], height, label=market)
    axes.axvline(0, color="black", linewidth=1)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xscale("symlog", linthresh=1)
    axes.set(xlabel="USD an epoch more than honesty, same hardware", title="What a deviation earns")
    axes.grid(alpha=0.3, axis="x")
    axes.legend()
    figure.savefig(path, dpi=110)
