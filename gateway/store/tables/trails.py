"""Trails: the evidence against each miner, as each validator's owner has found it so far."""

from gateway.store.tables.base import Table, big, real, text, word


class Trail(Table, table=True):
    """The evidence over all of a miner's tokens that validators of one owner audited, in order.

    ``ground`` tells whether it is by measured profiles or by the assumed one. See
    ``scoring/evidence.py``; ``log_sums_json`` holds null for the logarithm of 0.
    """

    miner: str = word(primary_key=True)
    owner: str = word(primary_key=True)
    ground: str = word(primary_key=True)
    tokens: int = big()
    log_sums_json: str = text()
    peak: float = real()
