"""A cheat: an honest engine in a wrapper that changes what goes in or what comes out."""

import random
from pathlib import Path

from miner.engines.base import Cancelled, Engine, EngineSettings, Progress
from protocol.messages import Stack, Work


class Cheat:
    """Wraps an honest engine; subclasses override what they falsify.

    A cheat is deterministic: its own random numbers derive from the unit's id.
    """

    def __init__(self, honest: Engine) -> None:
        self._honest = honest

    def load(self, folder: Path, model: str, revision: str, settings: EngineSettings) -> None:
        """Load the honest engine with what ``model_folder`` makes of the snapshot."""
        self._honest.load(self.model_folder(folder), model, revision, settings)

    def stack(self) -> Stack:
        """Return the honest engine's stack: a cheat declares what an honest node would."""
        return self._honest.stack()

    def generate(self, work: Work, progress: Progress, cancelled: Cancelled) -> list[list[int]]:
        """Generate from the falsified work, then falsify the samples."""
        numbers = random.Random(work.unit_id)
        samples = self._honest.generate(self.falsify_work(work), progress, cancelled)
        return [self.falsify_sample(work, ids, numbers) for ids in samples]

    def close(self) -> None:
        """Close the honest engine."""
        self._honest.close()

    def model_folder(self, folder: Path) -> Path:
        """Return the folder of the weights that are really used."""
        return folder

    def falsify_work(self, work: Work) -> Work:
        """Return the work that the honest engine is given in place of ``work``."""
        return work

    def falsify_sample(self, work: Work, ids: list[int], numbers: random.Random) -> list[int]:
        """Return the ids that are claimed in place of the generated ``ids``."""
        return ids
