"""Units whose right verdicts are known before they are judged, and who judges them wrongly. Pure.

They are made of samples that were verified: some stay as they are, some go on with the tokens of
another one from somewhere on, so that what follows is drawn from another context by another noise.
A validator that computes nothing cannot tell which, nor which units are such.

What is known is not certain: where a model is sure the other's tokens may be legal, and a sample
may have been verified by mistake. So an owner is found out by the share of its wrong verdicts
alone, far above what an honest one shows: with one in twenty spliced samples legal by chance, an
honest owner is taken for a dishonest one with probability below 3e-6 a judgement.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

from scoring.reputation import VERIFIED, VOID

# Tokens that a spliced sample has of another one, at least: a wrong seed shows well within them.
SPLICED_TOKENS = 16
# An owner is judged by no fewer answers of a kind, and found out where more than this are wrong.
ENOUGH = 24
MOST_WRONG = 1 / 3


@dataclass(frozen=True, slots=True)
class Known:
    """A sample of a known-answer unit: its ids, and the letter of its right verdict."""

    ids: list[int]
    letter: str


@dataclass(frozen=True, slots=True)
class Tally:
    """How an owner judged samples that are known to be void, and to be verified."""

    void: int = 0
    void_passed: int = 0
    verified: int = 0
    verified_failed: int = 0


def known_samples(samples: Sequence[Sequence[int]], secret: bytes) -> list[Known]:
    """Return verified samples of one unit with their right verdicts, about half of them spliced.

    Args:
        samples: their ids, each with its end.
        secret: what nobody else can guess; decides which are spliced, and where.
    """
    return [_known(samples, place, secret) for place in range(len(samples))]


def _known(samples: Sequence[Sequence[int]], place: int, secret: bytes) -> Known:
    own = list(samples[place])
    chance = sha256(secret + place.to_bytes(4, "big")).digest()
    if chance[0] & 1:
        other = samples[(place + 1) % len(samples)]
        cut = int.from_bytes(chance[1:5], "big") % (1 + len(own) // 2)
        made = [*own[:cut], *other[cut:]]
        if _changed(own, made) >= SPLICED_TOKENS and len(other) > cut:
            return Known(made, VOID)
    return Known(own, VERIFIED)


def _changed(own: Sequence[int], made: Sequence[int]) -> int:
    return sum(at >= len(own) or own[at] != ids for at, ids in enumerate(made))


def tally(known: str, letters: str) -> Tally:
    """Return how one verdict did; what it could not judge is nothing.

    Args:
        known, letters: the right letter and the given one of each sample.
    """
    pairs = list(zip(known, letters, strict=True))
    passed, failed = pairs.count((VOID, VERIFIED)), pairs.count((VERIFIED, VOID))
    return Tally(
        void=passed + pairs.count((VOID, VOID)),
        void_passed=passed,
        verified=failed + pairs.count((VERIFIED, VERIFIED)),
        verified_failed=failed,
    )


def is_found_out(found: Tally) -> bool:
    """Say whether an owner with this tally judges without looking."""
    return _too_wrong(found.void, found.void_passed) or _too_wrong(
        found.verified, found.verified_failed
    )


def _too_wrong(answers: int, wrong: int) -> bool:
    return answers >= ENOUGH and wrong > MOST_WRONG * answers
