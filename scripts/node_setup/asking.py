"""What is asked of an operator: on a terminal by a question, anywhere else by an option."""

from collections.abc import Callable
from dataclasses import dataclass


class SetupError(Exception):
    """A set-up cannot go on; the message says why and what to do."""


@dataclass(frozen=True)
class Asker:
    """Asks questions where there is somebody to answer.

    Attributes:
        prompt: takes a question and what an empty answer means, returns the answer; None where
            nobody is there.
    """

    prompt: Callable[[str, str | None], str] | None

    @property
    def present(self) -> bool:
        """Whether somebody is there."""
        return self.prompt is not None

    def needed(self, option: str, question: str) -> str:
        """Ask what has no default.

        Args:
            option: the one that answers the question without asking, such as ``--chain``.

        Raises:
            SetupError: nobody is there; names the option.
        """
        if self.prompt is None:
            raise SetupError(f"{option} is needed where no terminal is there to ask on")
        return self.prompt(question, None)

    def offered(self, question: str, default: str) -> str:
        """Ask what has a default, which is taken where nobody is there."""
        return default if self.prompt is None else self.prompt(question, default)
