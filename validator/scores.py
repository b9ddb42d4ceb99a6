"""Scores for weights: computed from the gateway's public records, the same by every validator."""

from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from protocol.epochs import EpochRecord, RecordFault
from protocol.records import RecordsUnavailable
from scoring.epochs import scores_at
from scoring.pay import PayRule
from validator.weights import Earned

log = structlog.get_logger(__name__)

# A record whose block is this old has been readable for as long: all validators see the same.
SETTLED_BLOCKS: Final = 10

Update = Callable[[], Awaitable[list[EpochRecord]]]


class RecordScorer:
    """Gives what every miner earned up to a block, by the public records alone.

    Args:
        update: fetches and checks the records, as ``protocol.records.Records.update``.
        rule: how work becomes a score.
    """

    def __init__(self, update: Update, rule: PayRule) -> None:
        self._update = update
        self._rule = rule

    async def __call__(self, block: int) -> Earned | None:
        """Return the scores at a block; None while the records cannot be read or there are none."""
        try:
            records = await self._update()
        except RecordsUnavailable as error:
            log.warning("no records", reason=str(error))
            return None
        except RecordFault as error:
            # Whoever changes the past gets no weights by it: those that are set stay.
            log.error("the public record does not hold", reason=str(error))
            return None
        scored = scores_at(records, block - SETTLED_BLOCKS, self._rule)
        return None if scored is None else Earned(scored.shares(), scored.burnt)
