"""A verdict held to the rule that it names: whoever has the marks can weigh them again."""

from protocol.messages import MAX_MARKS, SampleVerdict, Stack
from scoring.profile import Profile
from scoring.published import chosen
from scoring.sample_rule import RULE, judge_sample


def judged_by(rule: str, profile: str, model: str, miner: Stack, validator: Stack) -> Profile:
    """Return the profile by which verdicts were reached.

    Args:
        rule, profile: as the verdicts name them, the profile by its digest.
        model: what was generated with.
        miner, validator: the stacks that both declare.

    Raises:
        ValueError: it is not this version's rule, or not its profile for these stacks.
    """
    if rule != RULE:
        raise ValueError(f"rule must be {RULE!r}, not {rule!r}")
    due = chosen(model, miner, validator)
    if profile != due.digest:
        raise ValueError(f"profile must be {due.digest} for these stacks, not {profile}")
    return due


def weighing_fault(verdict: SampleVerdict, profile: Profile) -> str | None:
    """Return how a verdict's outcome differs from what its marks weigh; None where it does not."""
    if verdict.outcome == "inconclusive":
        return None
    if any(stratum >= len(profile.strata) for _, stratum, _ in verdict.marks):
        return f"has marks in strata past the profile's {len(profile.strata)}"
    found = judge_sample(profile, verdict.tokens, verdict.marks)
    if verdict.abstained != found.abstained:
        return f"must have abstained {str(found.abstained).lower()} by its marks"
    if found.violation is None:
        # A sample with more margins than a verdict can list is void by that alone.
        full = len(verdict.marks) == MAX_MARKS
        if verdict.outcome == "void" and not full:
            return "is void, and its marks weigh too little for it"
        return None
    if verdict.outcome == "verified":
        return f"is verified, and its marks void it at position {found.violation.position}"
    if verdict.position != found.violation.position:
        return f"must have position {found.violation.position} by its marks"
    return None
