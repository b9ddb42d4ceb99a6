"""Whether a miner may lease more work of a model commit, from its latest judged samples of it.

A record is a list of entries, oldest first: a time, and one letter a sample. ``v`` is verified;
``x`` void, as validators of two owners found, or as shows without a model; ``o`` void by the word
of the one owner that there is. The last counts only where a miner of another owner was verified on
the same commit: weights that a customer made to round badly are nobody's fault. What nobody could
judge is not in a record: the validator's own failure is never the miner's.

A void counts for a day, and against work of its own commit alone. What ends a miner's work for good
is the evidence over its tokens (``scoring/sample_rule.py``).
"""

from collections.abc import Sequence

VERIFIED = "v"
VOID = "x"
LONE_VOID = "o"
WINDOW = 50
MIN_VOIDS = 3
MAX_VOID_SHARE = 0.2
LIFE_MS = 24 * 3_600 * 1_000

Record = list[tuple[int, str]]


def extended(record: Sequence[tuple[int, str]], letters: str, now_ms: int) -> Record:
    """Return a record with newer letters behind it, cut to the latest ``WINDOW`` of a day."""
    kept: Record = []
    room = WINDOW
    for time_ms, found in reversed([*_living(record, now_ms), (now_ms, letters)]):
        latest = found[max(0, len(found) - room) :]
        room -= len(latest)
        if latest:
            kept.insert(0, (time_ms, latest))
    return kept


def may_lease(record: Sequence[tuple[int, str]], now_ms: int, *, corroborated: bool) -> bool:
    """Say whether a miner with this record is given work of the commit.

    It is not once at least ``MIN_VOIDS`` samples are void and they are more than
    ``MAX_VOID_SHARE`` of the record: some void samples alone can be bad luck, or few of many.

    Args:
        corroborated: whether a miner of another owner was verified on the commit.
    """
    letters = "".join(found for _, found in _living(record, now_ms))
    voids = letters.count(VOID) + corroborated * letters.count(LONE_VOID)
    return voids < MIN_VOIDS or voids <= MAX_VOID_SHARE * len(letters)


def _living(record: Sequence[tuple[int, str]], now_ms: int) -> list[tuple[int, str]]:
    return [(time_ms, found) for time_ms, found in record if time_ms > now_ms - LIFE_MS]
