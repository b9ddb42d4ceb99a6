"""The conditions that the demo of a whole network ends with. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scoring.pay import Scores
from scripts.strangers.cast import Stranger
from scripts.strangers.figures import Figures, of
from scripts.strangers.orders import LINES, Order
from scripts.strangers.weights import EpochWeights

# A lease that a busy machine let lapse costs an honest miner less than this.
TOLERANCE = 0.05


@dataclass(frozen=True)
class Condition:
    """A condition in words, whether it holds, and what tells against it."""

    text: str
    holds: bool
    detail: str = ""


def conditions(
    cast: Sequence[Stranger],
    epochs: Sequence[EpochWeights],
    figures: Mapping[str, Figures],
    scored: Scores | None,
    orders: Sequence[Order],
    validators: int,
) -> list[Condition]:
    """Return all conditions.

    Args:
        cast: all miners.
        epochs: what the validators set, oldest first.
        figures: by hotkey, of the whole public record.
        scored: what the last weights are of.
        orders: of the customer, all ended.
        validators: how many there are.
    """
    honest = [one for one in cast if one.honest]
    cheats = [one for one in cast if not one.honest]
    return [
        _same(epochs, validators),
        _recomputed(epochs),
        _cheats_end_at_zero(cheats, epochs),
        _nothing_void(honest, figures),
        _by_work(honest, epochs, scored),
        _delivered(orders),
    ]


def _same(epochs: Sequence[EpochWeights], validators: int) -> Condition:
    odd = [f"epoch {epoch.number}" for epoch in epochs if not epoch.agrees(validators)]
    text = f"the {validators} validators' weights are the same bytes in all {len(epochs)} epochs"
    return Condition(text, bool(epochs) and not odd, ", ".join(odd))


def _recomputed(epochs: Sequence[EpochWeights]) -> Condition:
    odd = [
        f"epoch {epoch.number}"
        for epoch in epochs
        if any(dict(row) != dict(epoch.expected) for row in epoch.rows.values())
    ]
    text = "they are what anybody computes from the public record"
    return Condition(text, bool(epochs) and not odd, ", ".join(odd))


def _cheats_end_at_zero(cheats: Sequence[Stranger], epochs: Sequence[EpochWeights]) -> Condition:
    left = [
        f"{one.name} has {epochs[-1].share(one.hotkey):.2%}"
        for one in cheats
        if epochs and any(row.get(one.hotkey, 0) for row in epochs[-1].rows.values())
    ]
    return Condition(
        f"all {len(cheats)} cheats end at weight 0", bool(epochs) and not left, ", ".join(left)
    )


def _nothing_void(honest: Sequence[Stranger], figures: Mapping[str, Figures]) -> Condition:
    samples = sum(of(figures, one.hotkey).verified for one in honest)
    void = [
        f"{one.name}: {of(figures, one.hotkey).void}"
        for one in honest
        if of(figures, one.hotkey).void
    ]
    text = f"no sample of the {len(honest)} honest miners was void, {samples} were verified"
    return Condition(text, bool(samples) and not void, ", ".join(void))


def _by_work(
    honest: Sequence[Stranger], epochs: Sequence[EpochWeights], scored: Scores | None
) -> Condition:
    """Compare each honest miner's part of the honest weight with its part of the honest work."""
    text = "honest miners are weighted by their verified work"
    if scored is None or not epochs:
        return Condition(text, False, "nothing was verified")
    work = {
        one.hotkey: scored.accounts[one.hotkey].earned if one.hotkey in scored.accounts else 0
        for one in honest
    }
    weight = {one.hotkey: epochs[-1].share(one.hotkey) for one in honest}
    all_work, all_weight = sum(work.values()), sum(weight.values())
    if not all_work or not all_weight:
        return Condition(text, False, "no honest miner has any")
    off = []
    for one in honest:
        due, has = work[one.hotkey] / all_work, weight[one.hotkey] / all_weight
        if not due or abs(has - due) > TOLERANCE * due:
            off.append(f"{one.name} did {due:.1%} of the work and has {has:.1%}")
    return Condition(text, not off, ", ".join(off))


def _delivered(orders: Sequence[Order]) -> Condition:
    short = [
        f"order {order.number} is {order.batch.status} with {order.delivered} lines"
        for order in orders
        if order.batch.status != "completed" or order.delivered != LINES
    ]
    text = f"all {LINES * len(orders)} lines of {len(orders)} orders were delivered"
    return Condition(text, bool(orders) and not short, ", ".join(short))
