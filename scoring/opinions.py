"""What several validators' verdicts on one result amount to, and who was wrong. Pure.

An opinion has one letter a sample: ``v`` verified, ``x`` void, any other where the validator could
not judge. Opinions count by owner, so that two hotkeys of one owner never agree with each other.
"""

from collections.abc import Iterable, Mapping
from hashlib import sha256

from scoring.reputation import VERIFIED, VOID


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


def overruled(opinions: Mapping[str, str]) -> set[str]:
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
