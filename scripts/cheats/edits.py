"""Cheats on what was drawn: tokens edited, answers cut short."""

import random

from protocol.messages import Work
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
