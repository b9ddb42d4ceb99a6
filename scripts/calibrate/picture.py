"""A picture of a profile: how often honest margins reach so many logits, by entropy."""

from pathlib import Path

import matplotlib

from scoring.profile import EDGES, ONE, Profile

matplotlib.use("Agg")


def draw_profile(profile: Profile, path: Path) -> None:
    """Write a PNG of the measured tails of every stratum and their bounds to ``path``."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 5.5), layout="constrained")
    places = [EDGES[0] / 2, *EDGES]
    low, lowest = 0.0, 1.0
    for number, stratum in enumerate(profile.strata):
        edge = stratum.entropy_below_micro
        name = f"{low:.2f} to {edge / 1e6:.2f} nats" if edge is not None else f"over {low:.2f} nats"
        low = low if edge is None else edge / 1e6
        counted = [sum(stratum.counts[place:]) for place in range(1, len(stratum.counts))]
        colour = f"C{number}"
        measured = [(x, n / stratum.tokens) for x, n in zip(places, counted, strict=True) if n]
        if measured:
            axes.plot(*zip(*measured, strict=True), "o-", color=colour, markersize=4)
        bounds = [bound / ONE for bound in stratum.tails]
        lowest = min(lowest, *bounds)
        axes.plot(places, bounds, "--", color=colour, linewidth=1, label=name)
    axes.set(
        xscale="log",
        yscale="log",
        # Where no margin was seen the bounds are flat, and would have a scale without a number.
        ylim=(lowest / 3, 1),
        xlabel="margin, logits",
        ylabel="share of honest tokens with a margin above",
        title=f"{profile.model}: {_side(profile.miner)} before {_side(profile.validator)}, "
        f"{profile.tokens:,} tokens",
    )
    axes.set_xticks(places, ["0", *(f"{edge:.3g}" for edge in EDGES)], rotation=45)
    axes.minorticks_off()
    axes.legend(title="entropy; dashed: upper bounds", fontsize=8)
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _side(side: object) -> str:
    engine, dtype = getattr(side, "engine", "any"), getattr(side, "dtype", "any")
    return f"{engine} {dtype}"
