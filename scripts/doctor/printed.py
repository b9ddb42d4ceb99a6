"""Findings as a person reads them."""

from collections.abc import Iterator, Sequence

from scripts.doctor.finding import Finding, Level

SIGNS = {Level.GOOD: "ok", Level.DOUBTFUL: "!!", Level.BROKEN: "NO"}


def printed(found: Sequence[Finding]) -> Iterator[str]:
    """Yield the lines of findings, each with its remedy below it."""
    for finding in found:
        yield f"{SIGNS[finding.level]:<3} {finding.about:<13} {finding.seen}"
        if finding.remedy:
            yield f"    {'':<13} -> {finding.remedy}"


def count_broken(found: Sequence[Finding]) -> int:
    """Return how many findings keep the role from its work."""
    return sum(finding.level == Level.BROKEN for finding in found)
