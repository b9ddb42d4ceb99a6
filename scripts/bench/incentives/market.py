"""The market: demand, dispatch, audits and pay, an epoch at a time.

One miner deviates, the others are honest. Pay is what ``scoring/pay.py`` says; concurrency grows by
``scoring/growth.py``. All money is in nano-USD.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from scoring.growth import leases_allowed
from scoring.pay import Convict, Epoch, PayRule, Scores, Work, scores
from scripts.bench.incentives.strategies import HONEST, Strategy

SAMPLE_TOKENS = 180
UNIT_SAMPLES = 64
UNIT_TOKENS = UNIT_SAMPLES * SAMPLE_TOKENS
MOST_LEASES = 32
TOKEN_NANO = 200
# What a customer pays for a token: the share of verification and the platform's margin on top.
CUSTOMER_TOKEN_NANO = 260
CAPACITY_TOKENS = 50_000_000
RENT_NANO = 3 * 10**9
WORK_NANO = 10  # electricity, a token
REGISTRATION_NANO = 10 * 10**9
HONEST_VOID = 1e-4


@dataclass(frozen=True)
class Market:
    """The world around the miners.

    Attributes:
        miners: their number, the deviating one included.
        demand: customers' tokens, as a share of all miners' capacity.
        emission: what an epoch's emission is worth, as a multiple of what demand's tokens cost.
        capped: whether the emission's worth is known, and what exceeds the work's is burnt.
        epochs: how long it goes on.
    """

    miners: int = 8
    demand: float = 0.6
    emission: float = 3.0
    capped: bool = True
    epochs: int = 420


@dataclass
class Hotkey:
    """One identity of a miner and its record."""

    name: str
    owner: str
    speed: float
    verified: int = 0
    tokens: int = 0
    convicted: bool = False


@dataclass
class Miner:
    """A miner: what it does, under which identities, and its profit so far."""

    name: str
    strategy: Strategy
    profit: float = 0.0
    lives: int = 0
    hotkeys: list[Hotkey] = field(default_factory=list)

    def enter(self) -> None:
        """Register its hotkeys anew."""
        self.lives += 1
        count, speed = self.strategy.hotkeys, self.strategy.speed
        self.hotkeys = [
            Hotkey(f"{self.name}.{self.lives}.{n}", f"{self.name}.{self.lives}.{n}", speed / count)
            for n in range(count)
        ]
        self.profit -= REGISTRATION_NANO * count


def profit_of(strategy: Strategy, market: Market, seed: int, rule: PayRule) -> float:
    """Return the mean profit of the one miner with this strategy, in nano-USD an epoch."""
    random = np.random.default_rng(seed)
    miners = [Miner(f"m{n}", strategy if n == 0 else HONEST) for n in range(market.miners)]
    for miner in miners:
        miner.enter()
    past: list[Epoch] = []
    for number in range(market.epochs):
        _epoch(number, miners, market, past, random, rule)
    return miners[0].profit / market.epochs


def _epoch(
    number: int,
    miners: list[Miner],
    market: Market,
    past: list[Epoch],
    random: np.random.Generator,
    rule: PayRule,
) -> None:
    demand = market.demand * market.miners * CAPACITY_TOKENS
    emission = round(market.emission * demand * TOKEN_NANO)
    acting = [_acting(miner.strategy, number) for miner in miners]
    own = [strategy.own_orders * CAPACITY_TOKENS for strategy in acting]
    open_orders = demand + sum(
        tokens * (1 - strategy.steers) for tokens, strategy in zip(own, acting, strict=True)
    )
    free = [_capacity(hotkey) for miner in miners for hotkey in miner.hotkeys]
    share = min(1.0, open_orders / max(1.0, sum(free)))
    work: list[Work] = []
    convicted = list(past[-1].convicted) if past else []
    for miner, strategy, ordered in zip(miners, acting, own, strict=True):
        miner.profit -= strategy.rent * RENT_NANO + ordered * CUSTOMER_TOKEN_NANO
        steered = ordered * strategy.steers
        for hotkey in miner.hotkeys:
            room = _capacity(hotkey) * (1 - share)
            extra = steered if strategy.cached else min(steered, room)
            given = _capacity(hotkey) * share
            costly = given + (0 if strategy.cached else extra)
            done = _serve(hotkey, strategy, given + extra, random)
            miner.profit -= costly * (1 - strategy.lapses) * WORK_NANO
            work.append(done)
            if _is_convicted(hotkey, strategy, number):
                hotkey.convicted = True
                convicted.append(Convict(hotkey.name, hotkey.owner, number))
    known = emission if market.capped else None
    past.append(Epoch(number, tuple(work), tuple(convicted), known))
    _pay(miners, scores(past[-rule.window :], rule), emission)
    for miner in miners:
        if miner.strategy.returns and all(hotkey.convicted for hotkey in miner.hotkeys):
            miner.enter()


def _acting(strategy: Strategy, number: int) -> Strategy:
    """Return what the miner does in this epoch."""
    if number < strategy.honest_epochs:
        return replace(strategy, rent=1.0, cheats=0.0)
    return strategy


def _capacity(hotkey: Hotkey) -> float:
    """Return the tokens that a hotkey can be given in an epoch."""
    if hotkey.convicted:
        return 0.0
    leases = leases_allowed(hotkey.verified) / MOST_LEASES
    # A newcomer grows within the epoch, by a lease a unit.
    grown = min(1.0, leases + 0.5)
    return CAPACITY_TOKENS * hotkey.speed * grown


def _serve(hotkey: Hotkey, strategy: Strategy, tokens: float, random: np.random.Generator) -> Work:
    units = int(tokens / UNIT_TOKENS)
    lapsed = int(random.binomial(units, strategy.lapses))
    samples = (units - lapsed) * UNIT_SAMPLES
    cheated = int(random.binomial(samples, strategy.cheats))
    void = int(random.binomial(cheated, strategy.void))
    void += int(random.binomial(samples - cheated, HONEST_VOID))
    good = samples - void
    hotkey.verified += good
    hotkey.tokens += samples * SAMPLE_TOKENS
    nano = good * SAMPLE_TOKENS * TOKEN_NANO
    return Work(hotkey.name, hotkey.owner, nano, good, void, lapsed)


def _is_convicted(hotkey: Hotkey, strategy: Strategy, number: int) -> bool:
    """Say whether the evidence over all of the hotkey's tokens is enough by now."""
    if hotkey.convicted or strategy.cheats == 0 or number < strategy.honest_epochs:
        return False
    return hotkey.tokens >= strategy.tokens_to_conviction / strategy.cheats**2


def _pay(miners: list[Miner], found: Scores, emission: int) -> None:
    shares = found.shares()
    total = sum(shares.values()) + found.burnt
    for miner in miners:
        names = {hotkey.name for hotkey in miner.hotkeys}
        mine = sum(score for name, score in shares.items() if name in names)
        if total:
            miner.profit += emission * mine / total
