"""What each miner has earned: verified work at its price, faded with age, in whole numbers.

    earned(miner)  = sum over epochs of weight(age) * nano
    reliability    = good / (good + VOID_COST * void + LAPSE_COST * lapsed)      each faded likewise
    score          = earned * reliability^2

The weight of an epoch is ``ONE`` for the newest and falls by ``decay_millionths`` with each that is
older, until ``window`` epochs ago. Who was convicted has no work up to its conviction and no score
for ``ban`` epochs after it; nor has any hotkey of the same owner.

No more is paid than work is worth: where the epochs' emission is worth more than ``worth_percent``
of the scores, what is over is burnt. Without that, whoever orders from itself would be paid more
than its orders cost as soon as emission exceeds revenue (``docs/incentives.md``).

Everything is integer arithmetic with floors, so that all validators compute the same bytes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

ONE: Final = 1 << 32
MILLION: Final = 10**6
PERCENT: Final = 100
VOID_COST: Final = 10
LAPSE_COST: Final = 2


@dataclass(frozen=True)
class PayRule:
    """How verified work becomes a score.

    Attributes:
        window: epochs that count.
        decay_millionths: weight of an epoch relative to the one after it; the default halves a
            weight in 20 epochs, which is a day of 72-minute epochs.
        ban: epochs without a score after a conviction.
        worth_percent: of the worth of verified work that is paid at most.
    """

    window: int = 140
    decay_millionths: int = 965_936
    ban: int = 420
    worth_percent: int = 90


@dataclass(frozen=True)
class Work:
    """What one miner did in an epoch.

    Attributes:
        hotkey, coldkey: the miner and its owner at that time (ss58).
        nano: the price of its verified tokens, in nano-USD.
        good: samples of it that were verified.
        void: samples of it that were void.
        lapsed: its leases that ended without an answer.
    """

    hotkey: str
    coldkey: str
    nano: int
    good: int
    void: int
    lapsed: int


@dataclass(frozen=True)
class Convict:
    """A miner that stands convicted, its owner, and the epoch of the conviction."""

    hotkey: str
    coldkey: str
    epoch: int


@dataclass(frozen=True)
class Epoch:
    """The public record of one epoch, as far as scores need it.

    ``convicted`` are all convictions that stand at its end: the newest record's are the ones that
    count, since one may be taken back. ``emission_nano`` is what the epoch's emission to miners is
    worth, None where nobody says.
    """

    number: int
    work: tuple[Work, ...]
    convicted: tuple[Convict, ...] = ()
    emission_nano: int | None = None


@dataclass
class Account:
    """How one miner's score comes about; the faded sums are multiples of 1/``ONE``."""

    hotkey: str
    earned: int = 0
    good: int = 0
    void: int = 0
    lapsed: int = 0
    banned_until: int | None = None
    epochs: list[tuple[int, int, Work]] = field(default_factory=list)

    @property
    def reliability(self) -> int:
        """Good samples among all that count, in millionths; 0 without any."""
        bad = VOID_COST * self.void + LAPSE_COST * self.lapsed
        return MILLION * self.good // (self.good + bad) if self.good else 0

    @property
    def score(self) -> int:
        """The score, in nano-USD of verified work as of now."""
        if self.banned_until is not None:
            return 0
        return self.earned * self.reliability**2 // (ONE * MILLION**2)


@dataclass(frozen=True)
class Scores:
    """All miners' accounts by hotkey, in order, and the share of the emission that is burnt."""

    epoch: int
    accounts: dict[str, Account]
    burnt: int

    def shares(self) -> dict[str, int]:
        """Return each miner's score that is not 0; with ``burnt`` they make up the emission."""
        return {hotkey: account.score for hotkey, account in self.accounts.items() if account.score}


def weights(rule: PayRule) -> list[int]:
    """Return the weight of an epoch by its age, 0 for the newest; older ones have none."""
    faded = [ONE]
    while len(faded) < rule.window:
        faded.append(faded[-1] * rule.decay_millionths // MILLION)
    return faded


def scores(epochs: Sequence[Epoch], rule: PayRule) -> Scores:
    """Return what every miner has earned by the newest of the epochs.

    Args:
        epochs: in ascending order of their numbers; gaps count as epochs without work.

    Raises:
        ValueError: there are none, or their numbers do not rise.
    """
    numbers = [epoch.number for epoch in epochs]
    if not numbers or any(here >= after for here, after in pairwise(numbers)):
        raise ValueError("the numbers of the epochs must rise, and there must be one")
    now = numbers[-1]
    faded, fallen = weights(rule), _falls(epochs[-1].convicted)
    accounts: dict[str, Account] = {}
    emission: int | None = 0
    for epoch in epochs:
        if now - epoch.number >= rule.window:
            continue
        share = faded[now - epoch.number]
        if emission is not None:
            known = epoch.emission_nano
            emission = None if known is None else emission + share * known
        for work in epoch.work:
            account = accounts.setdefault(work.hotkey, Account(work.hotkey))
            _add(account, epoch.number, share, work, fallen, now, rule)
    kept = dict(sorted(accounts.items()))
    return Scores(now, kept, _burnt(kept.values(), emission, rule))


def _falls(convicted: Iterable[Convict]) -> dict[str, int]:
    """Return the latest epoch of a conviction by hotkey and by coldkey."""
    falls: dict[str, int] = {}
    for convict in convicted:
        for key in (convict.hotkey, convict.coldkey):
            falls[key] = max(convict.epoch, falls.get(key, 0))
    return falls


def _add(
    account: Account,
    number: int,
    share: int,
    work: Work,
    fallen: dict[str, int],
    now: int,
    rule: PayRule,
) -> None:
    last = max((fallen[key] for key in (work.hotkey, work.coldkey) if key in fallen), default=None)
    if last is not None:
        if now - last < rule.ban:
            account.banned_until = last + rule.ban
        if number <= last:
            return
    account.epochs.append((number, share, work))
    account.earned += share * work.nano
    account.good += share * work.good
    account.void += share * work.void
    account.lapsed += share * work.lapsed


def _burnt(accounts: Iterable[Account], emission: int | None, rule: PayRule) -> int:
    """Return the score of nobody: what the emission is worth above the work that it pays."""
    if emission is None:
        return 0
    total = sum(account.score for account in accounts)
    # Both sides as of now: the emission is paid at the weight of the work that it pays.
    return max(0, emission // ONE * PERCENT // rule.worth_percent - total)
