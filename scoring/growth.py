"""How much work a miner is given at once: little at first, more with what was verified of it."""

from typing import Final

FIRST_LEASES: Final = 2
SAMPLES_FOR_ONE_MORE: Final = 64


def leases_allowed(verified: int) -> int:
    """Return how many generation leases the miners of one owner may hold at once, together.

    Counted by owner, so that many hotkeys are no more than one.

    Args:
        verified: samples of the owner's miners that were verified so far.
    """
    return FIRST_LEASES + verified // SAMPLES_FOR_ONE_MORE
