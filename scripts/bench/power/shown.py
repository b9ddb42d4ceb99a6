"""The figures of the cheat bench as a table and as a picture."""

import math
from collections.abc import Mapping
from pathlib import Path

import matplotlib
from rich.table import Table

from scripts.bench.power.streams import BOUNDS, Needed, Power

matplotlib.use("Agg")
# The bound for which the least tokens of any evidence are shown.
SHOWN = 1e6


def table(title: str, found: Mapping[str, Power]) -> Table:
    """Return a table: a row a cheat, tokens to each bound as median and 95 of 100 runs."""
    shown = Table(title=f"{title}: tokens until E passes, median (95 %)")
    shown.add_column("what is claimed")
    bounds = (f"{bound:.0e}" for bound in BOUNDS)
    for heading in ("differ", *bounds, f"{SHOWN:.0e} at best", "samples void"):
        shown.add_column(heading, justify="right")
    for name, one in found.items():
        shown.add_row(
            name,
            f"{100 * one.mismatches:.2f} %",
            *(_needed(one.needed[bound], one.tokens) for bound in BOUNDS),
            _at_best(one),
            f"{100 * one.void:.1f} %",
        )
    return shown


def draw_power(title: str, found: Mapping[str, Power], path: Path) -> None:
    """Write a PNG of the tokens that each cheat needs to ``path``."""
    from matplotlib import pyplot

    names = [name for name in found if name != "honest"]
    figure, axes = pyplot.subplots(figsize=(9, 0.35 * len(names) + 1.6), layout="constrained")
    for bound, marker in zip(BOUNDS, "o^s", strict=True):
        medians = [found[name].needed[bound].median for name in names]
        places = [place for place, value in enumerate(medians) if value < math.inf]
        axes.plot([medians[place] for place in places], places, marker, label=f"E = {bound:.0e}")
    for place, name in enumerate(names):
        needed = found[name].needed[1e6]
        if needed.late < math.inf:
            axes.plot([needed.median, needed.late], [place, place], "-", color="C1", alpha=0.5)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set(xscale="log", xlabel="tokens, median; line to 95 of 100 runs", title=title)
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _at_best(one: Power) -> str:
    tokens = one.at_best[SHOWN]
    return f"> {one.tokens:,}" if tokens > one.tokens else f"{tokens:,.0f}"


def _needed(needed: Needed, tokens: int) -> str:
    if needed.median == math.inf:
        return f"> {tokens:,}"
    late = "never" if needed.late == math.inf else f"{needed.late:,.0f}"
    return f"{needed.median:,.0f} ({late})"
