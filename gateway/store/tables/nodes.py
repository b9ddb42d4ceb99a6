"""Nodes: the miners and validators that have announced themselves."""

from enum import StrEnum

from sqlalchemy import Index

from gateway.store.tables.base import Table, big, one_of, real, text, word


class NodeRole(StrEnum):
    """What a node does."""

    MINER = "miner"
    VALIDATOR = "validator"


class Node(Table, table=True):
    """A node by its hotkey, as it announced itself last; ``coldkey`` owns it on the chain.

    A validator's verdicts do not count until ``distrusted_until_ms``.
    A miner convicted by the evidence is given no work.
    ``loading_model`` at ``loading_revision`` is what it has begun, or is about, to load.
    ``tokens_per_second`` is a moving average over its leases of the model that it holds.
    """

    __table_args__ = (one_of("role", NodeRole), Index(None, "role", "seen_at_ms"))

    hotkey: str = word(primary_key=True)
    coldkey: str = word()
    role: str = word()
    stack_json: str = text()
    architectures_json: str = text()
    loaded_model: str | None = word(None)
    loaded_revision: str | None = word(None)
    loading_model: str | None = word(None)
    loading_revision: str | None = word(None)
    max_samples: int = big()
    registered_at_ms: int = big()
    seen_at_ms: int = big()
    tokens_per_second: float | None = real(None)
    distrusted_until_ms: int | None = big(None)
    convicted_at_ms: int | None = big(None)
