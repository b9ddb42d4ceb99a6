"""Cheats on the draw: other noise, another temperature, no filters, no end."""

from protocol.messages import Work
from protocol.sampling import SEED_LIMIT
from scripts.cheats.base import Cheat


class OwnRandomNumbers(Cheat):
    """Draws with noise of its own instead of the order's."""

    def falsify_work(self, work: Work) -> Work:
        """Return the work under another seed."""
        return work.model_copy(update={"seed": (work.seed + 1) % SEED_LIMIT})


class Temperature(Cheat):
    """Draws at a lower temperature than ordered: safer text, fewer tokens."""

    factor, shift = 0.7, 0.0

    def falsify_work(self, work: Work) -> Work:
        """Return the work at another temperature."""
        other = work.sampling.temperature * self.factor + self.shift
        sampling = work.sampling.model_copy(update={"temperature": other})
        return work.model_copy(update={"sampling": sampling})


class Cold(Temperature):
    """Draws at a fifth of the ordered temperature: nearly always the likeliest token."""

    factor = 0.2


class Warmer(Temperature):
    """Draws a tenth above the ordered temperature."""

    factor, shift = 1.0, 0.1


class Cooler(Temperature):
    """Draws a tenth below the ordered temperature."""

    factor, shift = 1.0, -0.1


class IgnoreTopP(Cheat):
    """Draws as if top_p were off; the other filters hold."""

    def falsify_work(self, work: Work) -> Work:
        """Return the work without its top_p."""
        sampling = work.sampling.model_copy(update={"top_p": 1.0})
        return work.model_copy(update={"sampling": sampling})


class IgnoreFilters(Cheat):
    """Draws from the whole vocabulary whatever top_p, top_k and min_p say."""

    def falsify_work(self, work: Work) -> Work:
        """Return the work without its filters."""
        open_draw = {"top_p": 1.0, "top_k": 0, "min_p": 0.0}
        return work.model_copy(update={"sampling": work.sampling.model_copy(update=open_draw)})


class SuppressEnd(Cheat):
    """Never draws an end id, so that every sample is paid at full length.

    It leaves the ids from the lowest end id on out of the draw; tokenizers put their special
    tokens last, so hardly any text is lost.
    """

    def falsify_work(self, work: Work) -> Work:
        """Return the work over the vocabulary below its end ids."""
        return work.model_copy(update={"vocabulary_size": max(1, min(work.end_ids))})
