"""Records: how a miner's latest samples of each model commit were judged."""

from sqlalchemy import Index

from gateway.store.tables.base import Table, big, text, word


class Record(Table, table=True):
    """A miner's record with a model commit; see ``scoring/reputation.py``.

    ``owner`` is the miner's coldkey at the time of the latest entry, ``verified_at_ms`` when a
    sample of its was verified last, ``verified`` how many were in all. ``entries_json`` is a list
    of times, each with its letters.
    """

    __table_args__ = (Index(None, "model", "revision"), Index(None, "owner"))

    miner: str = word(primary_key=True)
    model: str = word(primary_key=True)
    revision: str = word(primary_key=True)
    owner: str = word()
    entries_json: str = text()
    verified_at_ms: int | None = big(None)
    verified: int = big(0)
