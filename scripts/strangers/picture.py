"""The weights of all miners as a picture: what each did, and what it was paid for it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import fill

import matplotlib
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from scripts.strangers.cast import UNIT_SAMPLES, Stranger
from scripts.strangers.figures import Figures, of, paid
from scripts.strangers.weights import EpochWeights

matplotlib.use("Agg")

HONEST, CHEAT, VOID, LAPSED = "#2a6fbb", "#d1495b", "#e8a0a8", "#b9b9b9"
# The names' part of the epochs' axis, and the width of a miner's description in letters.
LABELS = 0.36
LABEL_WIDTH = 30


def draw_network(
    cast: Sequence[Stranger],
    epochs: Sequence[EpochWeights],
    figures: Mapping[str, Figures],
    path: Path,
) -> None:
    """Write a PNG: weights by epoch on the left, samples and pay of each miner on the right."""
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(
        1, 2, figsize=(12.5, 5.4), layout="constrained", width_ratios=(1.2, 1)
    )
    _draw_weights(left, cast, epochs)
    _draw_work(right, cast, epochs, figures)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _draw_weights(axes: Axes, cast: Sequence[Stranger], epochs: Sequence[EpochWeights]) -> None:
    numbers = [epoch.number for epoch in epochs]
    ends: list[tuple[float, str, str]] = []
    for one in cast:
        shares = [100 * epoch.share(one.hotkey) for epoch in epochs]
        colour = HONEST if one.honest else CHEAT
        style = "-" if one.cheat is None else "--"
        axes.plot(
            numbers,
            shares,
            style,
            color=colour,
            marker="o",
            markersize=4,
            linewidth=1.6,
            clip_on=False,
        )
        ends.append((shares[-1], one.name, colour))
    for place, text, colour in _apart(ends, 100 * max(0.02, _highest(cast, epochs)) / 18):
        axes.annotate(
            text,
            (numbers[-1], place),
            xytext=(8, 0),
            textcoords="offset points",
            va="center",
            color=colour,
            fontsize=8.5,
        )
    axes.set(
        title="Weights on the chain, the same for all validators",
        xlabel="epoch",
        ylabel="share of the weights, %",
        xticks=numbers,
    )
    # Room for the names behind the last points.
    axes.set_xlim(numbers[0] - 0.15, numbers[-1] + LABELS * max(1, len(numbers) - 1))
    axes.set_ylim(bottom=-1)
    axes.grid(alpha=0.3)


def _highest(cast: Sequence[Stranger], epochs: Sequence[EpochWeights]) -> float:
    return max(epoch.share(one.hotkey) for one in cast for epoch in epochs)


def _apart(ends: Sequence[tuple[float, str, str]], least: float) -> list[tuple[float, str, str]]:
    """Return labels moved apart where they would overlap; those at zero share one."""
    placed: list[tuple[float, str, str]] = []
    zeros = [name for share, name, _ in ends if not share]
    if zeros:
        numbers = ", ".join(name.removeprefix("miner-") for name in zeros)
        placed.append((0.0, f"miners {numbers}", CHEAT))
    others = sorted(end for end in ends if end[0])
    # The lowest goes down by half of what they lack, so that they stay about their points.
    spread = others[-1][0] - others[0][0] if others else 0.0
    down = max(0.0, least * (len(others) - 1) - spread) / 2
    for share, name, colour in others:
        floor = placed[-1][0] + least if placed else 0.0
        placed.append((max(floor, share - down), name, colour))
    return placed


def _draw_work(
    axes: Axes,
    cast: Sequence[Stranger],
    epochs: Sequence[EpochWeights],
    figures: Mapping[str, Figures],
) -> None:
    rows = range(len(cast))
    known = [of(figures, one.hotkey) for one in cast]
    verified = [one.verified for one in known]
    void = [one.void for one in known]
    lapsed = [one.lapsed * UNIT_SAMPLES for one in known]
    colours = [HONEST if one.honest else CHEAT for one in cast]
    axes.barh(rows, verified, color=colours)
    axes.barh(rows, void, left=verified, color=VOID, hatch="///", edgecolor="white")
    starts = [one + two for one, two in zip(verified, void, strict=True)]
    axes.barh(rows, lapsed, left=starts, color=LAPSED)
    for row, one in zip(rows, cast, strict=True):
        share = paid(epochs, one.hotkey)
        text = f" paid {share:.1%}" if share else " paid nothing"
        axes.text(starts[row] + lapsed[row], row, text, va="center", fontsize=8.5)
    axes.set_yticks(
        rows, [fill(f"{one.name}: {one.habit}", LABEL_WIDTH) for one in cast], fontsize=8.5
    )
    axes.invert_yaxis()
    axes.margins(x=0.22)
    axes.set(title="Samples of each miner, and its pay", xlabel="samples")
    axes.legend(
        handles=[
            Patch(color=HONEST, label="verified, of the honest"),
            Patch(color=CHEAT, label="verified, of cheats"),
            Patch(facecolor=VOID, hatch="///", edgecolor="white", label="void"),
            Patch(color=LAPSED, label="lapsed"),
        ],
        fontsize=8.5,
        loc="upper center",
        bbox_to_anchor=(0.4, -0.11),
        ncols=4,
        frameon=False,
    )
    axes.grid(alpha=0.3, axis="x")
