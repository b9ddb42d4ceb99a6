"""How much work a miner is given at once: little at first, more with what was verified of it."""

from typing import Final

FIRST_LEASES: Final = 2
SAMPLES_FOR_ONE_MORE: Final = 64


def leases_allowed(verified: int, most: int) -> int:
    """Return how many leases an owner's miners may hold at once.

    Counted by owner, so that many hotkeys are no more than one.

    Args:
        verified: samples of the owner's miners that were verified so far.
        most: what anybody may hold at once.
    """
    return min(most, FIRST_LEASES + verified // SAMPLES_FOR_ONE_MORE)
