"""Findings: what was looked at, whether it is well, and what to do where it is not."""

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """``good``; ``doubtful`` works but will hurt; ``broken`` keeps the role from its work."""

    GOOD = "good"
    DOUBTFUL = "doubtful"
    BROKEN = "broken"


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        about: its name, such as ``clock``.
        level: how it is.
        seen: what was found, in a few words.
        remedy: what to do about it; empty where it is good.
    """

    about: str
    level: Level
    seen: str
    remedy: str = ""


def good(about: str, seen: str) -> Finding:
    """Return a finding that is well."""
    return Finding(about, Level.GOOD, seen)


def doubtful(about: str, seen: str, remedy: str) -> Finding:
    """Return a finding that works but will hurt."""
    return Finding(about, Level.DOUBTFUL, seen, remedy)


def broken(about: str, seen: str, remedy: str) -> Finding:
    """Return a finding that keeps the role from its work."""
    return Finding(about, Level.BROKEN, seen, remedy)
