"""Verdicts that need no margin: on claims of illegal form, and where the audit itself failed."""

from protocol.messages import SampleVerdict


def failure(reason: str, tokens: int) -> SampleVerdict:
    """Return the verdict on a sample that this validator failed to audit."""
    return SampleVerdict(
        outcome="inconclusive",
        reason=reason[:200],
        tokens=tokens,
        mismatches=0,
        largest_margin_micro=0,
    )


def refusal(reason: str, tokens: int, position: int | None) -> SampleVerdict:
    """Return the verdict on a sample that is void before any arithmetic."""
    return SampleVerdict(
        outcome="void",
        reason=reason[:200],
        tokens=tokens,
        mismatches=0,
        largest_margin_micro=0,
        position=position,
    )
