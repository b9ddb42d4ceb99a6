"""Known answers: how validators judged units whose right verdicts were known."""

from gateway.store.tables.base import Table, big, word


class KnownAnswer(Table, table=True):
    """What one audit lease of a known-answer unit came to; ``id`` is that lease's.

    See ``scoring/known_answers.py`` for the counts. Rows go once their owner was found out.
    """

    id: str = word(primary_key=True, foreign_key="leases.id")
    owner: str = word(index=True)
    void: int = big()
    void_passed: int = big()
    verified: int = big()
    verified_failed: int = big()
    created_at_ms: int = big()
