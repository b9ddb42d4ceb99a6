"""The validator's weights beside its audits: from the gateway's records to the chain."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Final

import structlog
from bittensor_core import Keypair

from protocol.chain.base import Chain
from protocol.chain.gateway import owner_hotkey
from protocol.epochs import EpochRecord
from protocol.records import Records
from scoring.pay import PayRule
from validator.scores import RecordScorer
from validator.settings import ValidatorSettings
from validator.weights import WeightSetter

log = structlog.get_logger(__name__)

# Grows whenever the same records come to other scores; the chain refuses those that are behind.
SCORING_VERSION: Final = 1


@asynccontextmanager
async def setting_weights(
    settings: ValidatorSettings, keypair: Keypair, clock: Callable[[], float]
) -> AsyncIterator[None]:
    """Set weights for as long as the context lasts, where a chain is given.

    Args:
        settings: with the gateway's origin filled in.
        keypair: the validator's hotkey.
        clock: seconds since the epoch.

    Raises:
        StateError: the file of the weights' state is damaged.
    """
    if settings.chain is None:
        log.info("no chain is given, so no weights are set")
        yield
        return
    async with aclosing(settings.chain.open(clock)) as chain:
        records = _Records(settings, chain)
        scorer = RecordScorer(records.update, PayRule())
        setter = WeightSetter(chain, keypair, scorer, SCORING_VERSION, settings.weights_path)
        task = asyncio.create_task(setter.run(settings.chain_seconds))
        task.add_done_callback(_tell_end)
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])


class _Records:
    """The records of the gateway whose hotkey is given, or else named by the chain.

    Never of whoever answers: the chain is asked when the records are needed first.
    """

    def __init__(self, settings: ValidatorSettings, chain: Chain) -> None:
        self._settings = settings
        self._chain = chain

    async def update(self) -> list[EpochRecord]:
        hotkey = self._settings.gateway_hotkey or await owner_hotkey(self._chain)
        folder = self._settings.records_folder / hotkey
        return await Records(self._settings.gateway, hotkey, folder).update()


def _tell_end(task: "asyncio.Task[None]") -> None:
    if not task.cancelled():
        log.critical("no more weights are set until a restart", reason=repr(task.exception()))
