"""The model that a miner holds: downloaded at its commit, loaded in a process, replaced, closed."""

from collections.abc import Callable

import structlog

from miner.engines.base import EngineError
from miner.engines.process import EngineProcess
from miner.fetch import FetchFailed, fetch
from miner.settings import MinerSettings
from protocol.messages import LoadedModel

# A model that failed to download or load is not tried again for this long.
AVOID_SECONDS = 600.0
# What may pass by itself, such as a crash or a hub that is away, is tried again sooner.
PASSING_SECONDS = 15.0
PROGRESS_STEP = 0.1

log = structlog.get_logger()


class Holder:
    """At most one engine process, and which models failed here lately."""

    def __init__(self, settings: MinerSettings, clock: Callable[[], float]) -> None:
        self._settings = settings
        self._clock = clock
        self._avoided: dict[tuple[str, str], float] = {}
        self.engine: EngineProcess | None = None
        self.loaded: LoadedModel | None = None

    @property
    def avoided(self) -> list[LoadedModel]:
        """Models that failed here lately."""
        now = self._clock()
        return [
            LoadedModel(model=model, revision=revision)
            for (model, revision), until in self._avoided.items()
            if until > now
        ]

    def avoid(self, loaded: LoadedModel, seconds: float) -> None:
        """Choose this model commit no more for ``seconds``."""
        self._avoided[loaded.model, loaded.revision] = self._clock() + seconds

    async def hold(self, wanted: LoadedModel) -> bool:
        """Download and load ``wanted`` in place of what is held; say whether that went well."""
        if wanted == self.loaded:
            return True
        await self.close()
        started = self._clock()
        try:
            self.engine = await self._started(wanted)
        except (FetchFailed, EngineError) as error:
            log.error("model not loaded", model=wanted.model, reason=str(error))
            passing = isinstance(error, FetchFailed) and error.passing
            self.avoid(wanted, PASSING_SECONDS if passing else AVOID_SECONDS)
            return False
        self.loaded = wanted
        log.info(
            "model loaded",
            model=wanted.model,
            revision=wanted.revision[:12],
            seconds=round(self._clock() - started, 1),
            **self.engine.stack.model_dump(exclude={"parallelism"}),
        )
        return True

    async def close(self) -> None:
        """End the engine process, if there is one."""
        engine, self.engine, self.loaded = self.engine, None, None
        if engine is not None:
            await engine.close()

    async def kill(self) -> None:
        """End the engine process at once."""
        engine, self.engine, self.loaded = self.engine, None, None
        if engine is not None:
            await engine.kill()

    async def _started(self, wanted: LoadedModel) -> EngineProcess:
        folder = await fetch(
            wanted.model, wanted.revision, self._settings.models, _logged_progress(wanted.model)
        )
        log.info("loading model", model=wanted.model, revision=wanted.revision[:12])
        return await EngineProcess.start(
            self._settings.factory,
            folder,
            wanted.model,
            wanted.revision,
            self._settings.engine_settings(),
            self._settings.log_path,
        )


def _logged_progress(model: str) -> Callable[[int, int], None]:
    """Return a progress callback that writes a log line at every tenth."""
    told = 0.0

    def progress(done: int, total: int) -> None:
        nonlocal told
        share = done / max(total, 1)
        if share >= told + PROGRESS_STEP or (share >= 1 and told < 1):
            told = share
            log.info("downloading", model=model, percent=round(100 * share), bytes=total)

    return progress
