"""Epochs: the public records that were written, one row for each."""

from gateway.store.tables.base import Table, big, word


class Epoch(Table, table=True):
    """A record by its number; see ``protocol/epochs.py``.

    ``digest`` is what the next record names it by, ``block`` the chain's head when it was written.
    """

    number: int = big(primary_key=True)
    digest: str = word(unique=True)
    block: int = big()
    object_key: str = word(unique=True)
    bytes: int = big()
    created_at_ms: int = big()
