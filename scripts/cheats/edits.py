"""Cheats on what was drawn: tokens edited, answers cut short, one answer handed in many times."""

import random

from miner.engines.base import Cancelled, Progress
from protocol.messages import SampleReference, Work
from scripts.cheats.base import Cheat

EDITED_SHARE = 0.05


class EditTokens(Cheat):
    """Replaces one token in twenty, at least one a sample, with another of its own choice."""

    def falsify_sample(self, work: Work, ids: list[int], numbers: random.Random) -> list[int]:
        """Return ``ids`` with some tokens replaced; ends stay, so that the length is legal."""
        edited, ends = list(ids), set(work.end_ids)
        places = [place for place, token in enumerate(ids) if token not in ends]
        for place in numbers.sample(places, min(len(places), 1 + int(len(ids) * EDITED_SHARE))):
            while edited[place] == ids[place] or edited[place] in ends:
                edited[place] = numbers.randrange(work.vocabulary_size)
        return edited


class EarlyEnd(Cheat):
    """Ends every sample halfway: half the work at a sample's price."""

    def falsify_sample(self, work: Work, ids: list[int], numbers: random.Random) -> list[int]:
        """Return the first half of ``ids`` with an end id after it."""
        return [*ids[: len(ids) // 2], work.end_ids[0]]


class CopyAnswers(Cheat):
    """Generates one answer to each prompt and hands it in for all of its samples."""

    def generate(self, work: Work, progress: Progress, cancelled: Cancelled) -> list[list[int]]:
        """Return the first sample of each prompt in place of the others."""
        firsts: dict[int, SampleReference] = {}
        for sample in work.samples:
            firsts.setdefault(sample.prompt, sample)
        asked = work.model_copy(update={"samples": list(firsts.values())})
        answers = dict(zip(firsts, self._honest.generate(asked, progress, cancelled), strict=True))
        return [answers[sample.prompt] for sample in work.samples]
