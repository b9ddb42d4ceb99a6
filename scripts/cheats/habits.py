"""Miners whose honesty or speed is a matter of time."""

import random
import time

from miner.engines.base import Cancelled, Engine, GenerationCancelled, Progress
from protocol.messages import Work
from scripts.cheats.base import Cheat
from scripts.cheats.edits import EditTokens


class Turncoat(EditTokens):
    """Is honest for its first units, then puts tokens of its own into some answers of each.

    So few answers that their share alone never stops it: what does is the evidence.
    """

    honest_units = 3
    edited_share = 1 / 6

    def __init__(self, honest: Engine) -> None:
        super().__init__(honest)
        self._units = 0

    def generate(self, work: Work, progress: Progress, cancelled: Cancelled) -> list[list[int]]:
        """Generate honestly, then edit the last samples of the unit."""
        self._units += 1
        samples = self._honest.generate(work, progress, cancelled)
        if self._units <= self.honest_units:
            return samples
        numbers = random.Random(work.unit_id)
        kept = len(samples) - max(1, int(len(samples) * self.edited_share))
        edited = [self.falsify_sample(work, ids, numbers) for ids in samples[kept:]]
        return [*samples[:kept], *edited]


class Slow(Cheat):
    """Draws honestly, and takes some seconds longer over every unit."""

    seconds = 4.0
    poll_seconds = 0.1

    def generate(self, work: Work, progress: Progress, cancelled: Cancelled) -> list[list[int]]:
        """Generate, then dawdle."""
        samples = self._honest.generate(work, progress, cancelled)
        ready_at = time.monotonic() + self.seconds
        while time.monotonic() < ready_at:
            if cancelled():
                raise GenerationCancelled("the unit was given up")
            time.sleep(self.poll_seconds)
        return samples
