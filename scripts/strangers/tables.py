"""What the demo of a whole network shows: who is in it, a row an epoch, and the accounts."""

from collections.abc import Mapping, Sequence
from hashlib import sha256

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from protocol.canonical import canonical_json
from scripts.strangers.cast import Stranger
from scripts.strangers.figures import Figures, of, paid
from scripts.strangers.judging import Condition
from scripts.strangers.weights import EpochWeights

NANO = 10**9
CELL = 6
HONEST, CHEAT, FAINT = "cyan", "red", "dim"


def show_cast(console: Console, cast: Sequence[Stranger]) -> None:
    """Print who the miners are."""
    for one in cast:
        console.print(f"  {one.name:<9} [{_colour(one)}]{one.habit}[/]", highlight=False)


def epoch_heading(cast: Sequence[Stranger]) -> str:
    """Return the heading of the rows of epochs: the miners' numbers."""
    numbers = "".join(
        f"[{_colour(one)}]{one.name.removeprefix('miner-'):>{CELL}}[/]" for one in cast
    )
    return (
        f"miner     {numbers}   {'tokens':>6} {'void':>4} {'banned':>6}   weights of the validators"
    )


def epoch_row(
    epoch: EpochWeights,
    cast: Sequence[Stranger],
    figures: Mapping[str, Figures],
    validators: int,
) -> str:
    """Return an epoch's row: each miner's share in percent, and how the network stands.

    Args:
        figures: of all that is on record by now.
    """
    cells = "".join(_cell(epoch.share(one.hotkey)) for one in cast)
    all_figures = figures.values()
    tokens, void = sum(one.tokens for one in all_figures), sum(one.void for one in all_figures)
    convicted = sum(one.convicted for one in all_figures)
    same = "[green]identical[/]" if epoch.agrees(validators) else "[red]DIFFERENT[/]"
    return (
        f"epoch {epoch.number:<4}{cells}   {tokens:>6,} {void:>4} {convicted:>6}   "
        f"{same} [{FAINT}]{fingerprint(epoch)}[/]"
    )


def fingerprint(epoch: EpochWeights) -> str:
    """Return the first hex digits of the SHA-256 of the weights, of each kind that was set."""
    encoded = {canonical_json(dict(row)) for row in epoch.rows.values()}
    return " ".join(sorted(sha256(row).hexdigest()[:8] for row in encoded))


def account_table(
    cast: Sequence[Stranger],
    epochs: Sequence[EpochWeights],
    figures: Mapping[str, Figures],
    standing: Mapping[str, str],
) -> Table:
    """Return what each miner did, what became of it, and what it was paid.

    Args:
        standing: by hotkey, what the gateway answers a miner that asks for work.
    """
    table = Table(title="What the public record says of each miner", title_justify="left")
    table.add_column("miner")
    table.add_column("what it does")
    for heading in ("verified tokens", "worth, USD", "void", "lapsed", "final weight", "paid"):
        table.add_column(heading, justify="right")
    table.add_column("asks for work")
    for one in cast:
        known = of(figures, one.hotkey)
        row = next(iter(epochs[-1].rows.values()), {}) if epochs else {}
        table.add_row(
            one.name,
            f"[{_colour(one)}]{one.habit}[/]",
            f"{known.tokens:,}",
            f"{known.nano / NANO:.6f}",
            str(known.void),
            str(known.lapsed),
            f"{row.get(one.hotkey, 0):,}",
            f"{paid(epochs, one.hotkey):.1%}",
            standing.get(one.hotkey, ""),
        )
    table.caption = (
        "paid: the share of all epochs' emission that the weights give. Weights are u16, the "
        "largest 65,535"
    )
    return table


def show_conditions(console: Console, found: Sequence[Condition]) -> bool:
    """Print each condition with its outcome and say whether all hold."""
    for one in found:
        mark = "[green]yes[/]" if one.holds else "[red]NO[/]"
        console.print(f"{mark}  {escape(one.text)} {escape(one.detail)}".rstrip(), highlight=False)
    return all(one.holds for one in found)


def _cell(share: float) -> str:
    text = f"{100 * share:>{CELL}.1f}"
    return text if share else f"[{FAINT}]{'0':>{CELL}}[/]"


def _colour(one: Stranger) -> str:
    return HONEST if one.honest else CHEAT
