"""Miners whose honesty or speed is a matter of time."""

import time

from miner.engines.base import Cancelled, Engine, GenerationCancelled, Progress
from protocol.messages import Work
from scripts.cheats.base import Cheat
from scripts.cheats.draws import OwnRandomNumbers


class Turncoat(Cheat):
    """Is honest for its first units, then draws some samples with its own random numbers.

    So few that the share of void samples alone never stops it: what does is the evidence.
    """

    honest_units = 5
    redrawn_share = 1 / 8

    def __init__(self, honest: Engine) -> None:
        super().__init__(honest)
        self._units = 0

    def generate(self, work: Work, progress: Progress, cancelled: Cancelled) -> list[list[int]]:
        """Generate honestly, then draw the last samples of the unit again."""
        self._units += 1
        samples = self._honest.generate(work, progress, cancelled)
        if self._units <= self.honest_units:
            return samples
        redrawn = max(1, int(len(samples) * self.redrawn_share))
        part = work.model_copy(update={"samples": work.samples[-redrawn:]})
        return [
            *samples[:-redrawn],
            *OwnRandomNumbers(self._honest).generate(part, progress, cancelled),
        ]


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
