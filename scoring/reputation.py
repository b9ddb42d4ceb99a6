"""Whether a miner may lease more work, from its latest judged samples alone.

A record is a string of one letter a sample, oldest first: ``v`` verified, ``x`` void. What nobody
could judge is not in it: the validator's own failure is never the miner's.
"""

VERIFIED = "v"
VOID = "x"
WINDOW = 50
MIN_VOIDS = 3
MAX_VOID_SHARE = 0.2


def extended(record: str, outcomes: str) -> str:
    """Return ``record`` with newer ``outcomes`` behind it, cut to the latest ``WINDOW``."""
    return (record + outcomes)[-WINDOW:]


def may_lease(record: str) -> bool:
    """Say whether a miner with this record is given work.

    It is not once at least ``MIN_VOIDS`` samples are void and they are more than
    ``MAX_VOID_SHARE`` of the record: some void samples alone can be bad luck, or few of many.
    """
    voids = record[-WINDOW:].count(VOID)
    return voids < MIN_VOIDS or voids <= MAX_VOID_SHARE * len(record[-WINDOW:])
