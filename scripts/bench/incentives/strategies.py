"""What a miner may do instead of its work, as numbers that the market understands."""

from dataclasses import dataclass

DAY = 20  # epochs of 72 minutes


@dataclass(frozen=True)
class Strategy:
    """How one miner with the hardware of any other behaves.

    Attributes:
        name: shown in table and picture.
        speed: of its hardware, relative to the others'.
        rent: of its hardware, relative to the others'.
        lapses: share of its leases that it lets lapse.
        cheats: share of its samples that it does not generate honestly.
        void: probability that such a sample is void.
        tokens_to_conviction: that the evidence needs where all samples cheat; where a share f does
            it needs 1/f^2 times as many.
        honest_epochs: it behaves for so long, and cheats then.
        returns: it comes back under a fresh owner once it is convicted.
        hotkeys: of as many owners, between which it splits its hardware.
        own_orders: orders of its own, as a share of its hardware's tokens.
        steers: share of its own orders that reach itself: all, where nobody else serves the model.
        cached: its own orders repeat, and cost it no work after the first.
    """

    name: str
    speed: float = 1.0
    rent: float = 1.0
    lapses: float = 0.0
    cheats: float = 0.0
    void: float = 0.0
    tokens_to_conviction: float = float("inf")
    honest_epochs: int = 0
    returns: bool = False
    hotkeys: int = 1
    own_orders: float = 0.0
    steers: float = 0.0
    cached: bool = False


HONEST = Strategy("honest")
# Voids and tokens to E = 1e9 follow the figures of docs/audit.md; 8-bit weights were not convicted
# within 31,000 tokens, so they are given ten times that.
DEVIATIONS = (
    Strategy("half the speed, half the rent", speed=0.5, rent=0.5),
    Strategy("lets a fifth of its leases lapse", lapses=0.2),
    Strategy("squats: holds leases, owns nothing", rent=0.0, lapses=1.0),
    Strategy("smaller model", rent=0.4, cheats=1.0, void=0.99, tokens_to_conviction=15),
    Strategy("4-bit weights", rent=0.5, cheats=1.0, void=0.7, tokens_to_conviction=120),
    Strategy("8-bit weights", rent=0.7, cheats=1.0, void=0.0005, tokens_to_conviction=300_000),
    Strategy("4-bit, one sample in twenty", rent=0.98, cheats=0.05, void=0.7,
             tokens_to_conviction=120),
    Strategy("4-bit, always under a fresh owner", rent=0.5, cheats=1.0, void=0.7,
             tokens_to_conviction=120, returns=True),
    Strategy("8-bit, always under a fresh owner", rent=0.7, cheats=1.0, void=0.0005,
             tokens_to_conviction=300_000, returns=True),
    Strategy("honest a week, then 8-bit", rent=0.7, cheats=1.0, void=0.0005,
             tokens_to_conviction=300_000, honest_epochs=7 * DAY),
    Strategy("ten hotkeys", hotkeys=10),
    Strategy("orders from all miners", own_orders=0.4, steers=0.0),
    Strategy("orders from itself", own_orders=0.4, steers=1.0),
    Strategy("repeats orders from itself, cached", own_orders=1.0, steers=1.0, cached=True),
)  # fmt: skip
