"""What several validators' verdicts on one result amount to, and who was wrong. Pure.

An opinion has one letter a sample: ``v`` verified, ``x`` void, any other where the validator could
not judge. Opinions count by owner, so that two hotkeys of one owner never agree with each other.

Two that both verify a sample may still differ in what they saw of it: one that leaves out the marks
keeps the evidence from growing. The margins of one claim before two validators differ by no more
than their logits do, as a margin itself is no more than the logits of miner and validator differ.
So the difference of two margins is judged as a margin is: by the evidence under the assumed bounds.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import combinations
from typing import Self

import numpy as np

from scoring.evidence import Trail, extend, log_factors
from scoring.profile import BINS, EDGES, Profile, bin_of
from scoring.reputation import VERIFIED, VOID

# Of the differences between two opinions on one result: past it they saw two different things.
EVIDENCE_TO_DIFFER = 1e9


@dataclass(frozen=True, slots=True)
class Seen:
    """What a verdict shows of a sample: its number of tokens, and its marks."""

    tokens: int
    marks: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class Opinion:
    """An owner's letters on the samples of a result, and what it saw, None where not known."""

    letters: str
    seen: tuple[Seen | None, ...]

    def overlaid(self, later: Self) -> Self:
        """Return this opinion where ``later`` could not judge, else that one."""
        pairs = list(
            zip(
                zip(self.letters, self.seen, strict=True),
                zip(later.letters, later.seen, strict=True),
                strict=True,
            )
        )
        chosen = [new if new[0] in (VERIFIED, VOID) else old for old, new in pairs]
        letters = "".join(letter for letter, _ in chosen)
        return type(self)(letters, tuple(seen for _, seen in chosen))


def differ(first: Opinion, second: Opinion, bounds: Profile) -> bool:
    """Say whether two opinions saw different margins in samples that both verified.

    Args:
        bounds: of honest margins, of one stratum, whatever the stacks.
    """
    trail = Trail.empty()
    pairs = zip(first.letters, second.letters, first.seen, second.seen, strict=True)
    for letter, other, one, two in pairs:
        if letter == other == VERIFIED and one is not None and two is not None:
            bins = _gaps(one, two)
            trail, _ = extend(trail, log_factors(bounds, np.zeros_like(bins), bins))
    return trail.peak >= math.log(EVIDENCE_TO_DIFFER)


def at_odds(opinions: Mapping[str, Opinion], bounds: Profile) -> tuple[set[str], bool]:
    """Return the owners whose marks most others contradict, and whether any differ beyond that.

    Those others must agree among themselves; two alone never settle it.
    """
    against: dict[str, set[str]] = {owner: set() for owner in opinions}
    for one, two in combinations(opinions, 2):
        if differ(opinions[one], opinions[two], bounds):
            against[one].add(two)
            against[two].add(one)
    most = (len(opinions) - 1) / 2
    wrong = {
        owner
        for owner, others in against.items()
        if len(others) > max(1, most) and not any(against[other] & others for other in others)
    }
    open_ = any(others - wrong for owner, others in against.items() if owner not in wrong)
    return wrong, open_


def _gaps(one: Seen, two: Seen) -> np.ndarray:
    """Return the bin of the least difference of two margins of each token, int64 [tokens]."""
    found = np.zeros((2, one.tokens), dtype=np.int64)
    for row, seen in zip(found, (one, two), strict=True):
        for position, _, margin_bin in seen.marks:
            row[position] = margin_bin
    return _GAPS[found[0], found[1]]


def _gap(one: int, two: int) -> int:
    low, high = sorted((one, two))
    # Where each bin begins and ends, in logits.
    begins, ends = (0.0, 0.0, *EDGES), (0.0, *EDGES, math.inf)
    return bin_of(max(0.0, begins[high] - ends[low]))


_GAPS = np.array([[_gap(one, two) for two in range(BINS)] for one in range(BINS)], dtype=np.int64)


def is_drawn(block_hash: str, unit_id: str, share: float) -> bool:
    """Say whether a judged unit goes to a second validator.

    Args:
        block_hash: of a block that was not there when the unit was judged, so that no validator
            knew while it judged.
        unit_id: the unit.
        share: of all units, 0 to 1.
    """
    text = f"reliquary-second-opinion/1 {block_hash} {unit_id}"
    drawn = int.from_bytes(sha256(text.encode("ascii")).digest()[:8], "big")
    return drawn < share * 2**64


def standing(letters: Iterable[str]) -> str | None:
    """Return what most of those who could judge found; None in a tie, or where nobody could."""
    verified, void = _counts(letters)
    if verified == void:
        return None
    return VERIFIED if verified > void else VOID


def is_tied(letters: Iterable[str]) -> bool:
    """Say whether as many found a sample void as found it verified."""
    verified, void = _counts(letters)
    return verified == void > 0


def judged_by(letters: Iterable[str]) -> int:
    """Return how many could judge a sample."""
    return sum(_counts(letters))


def overruled(opinions: Mapping[str, Sequence[str]]) -> set[str]:
    """Return the owners who found of some sample what most others found otherwise.

    Args:
        opinions: the letters of each owner, all of one length.
    """
    wrong: set[str] = set()
    for letters in zip(*opinions.values(), strict=True):
        found = standing(letters)
        if found is not None:
            against = VOID if found == VERIFIED else VERIFIED
            wrong |= {
                owner for owner, letter in zip(opinions, letters, strict=True) if letter == against
            }
    return wrong


def _counts(letters: Iterable[str]) -> tuple[int, int]:
    found = list(letters)
    return found.count(VERIFIED), found.count(VOID)
