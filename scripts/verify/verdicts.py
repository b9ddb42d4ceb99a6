"""A verdict held to itself: what can be told of it without the model."""

from collections.abc import Sequence

from protocol.messages import SampleVerdict
from protocol.receipts import Fault, VerdictPart
from scoring.profile import Profile, bin_of
from scoring.published import published
from scoring.sample_rule import RULE, judge_sample

SAMPLE = "verdict.sample"


def verdict_fault(verdict: VerdictPart, token_ids: Sequence[int]) -> Fault | None:
    """Return how a delivered sample's verdict contradicts its sample, its rule or itself.

    The outcome is drawn from the marks again where rule and profile are known to this version.
    """
    sample = verdict.sample
    if sample.outcome != "verified":
        return Fault(f"{SAMPLE}.outcome", "is not 'verified'")
    if sample.tokens != len(token_ids):
        return Fault(f"{SAMPLE}.tokens", f"is {sample.tokens} for {len(token_ids)} ids")
    if sample.mismatches > sample.tokens:
        return Fault(f"{SAMPLE}.mismatches", f"is above {sample.tokens} tokens")
    if (sample.reason, sample.position) != (None, None):
        return Fault(f"{SAMPLE}.reason", "is there although the sample is verified")
    profile = known_profile(verdict)
    return None if profile is None else _rule_fault(sample, profile)


def known_profile(verdict: VerdictPart) -> Profile | None:
    """Return the published profile that a verdict was reached by; None for an unknown one."""
    return published().get(verdict.profile or "") if verdict.rule == RULE else None


def _rule_fault(sample: SampleVerdict, profile: Profile) -> Fault | None:
    field = f"{SAMPLE}.marks"
    positions = [position for position, _, _ in sample.marks]
    if positions != sorted(set(positions)) or max(positions, default=0) >= sample.tokens:
        return Fault(field, "are no rising positions within the sample")
    if any(stratum >= len(profile.strata) for _, stratum, _ in sample.marks):
        return Fault(field, "name a stratum that the profile does not have")
    if not _largest_fits(sample):
        return Fault(f"{SAMPLE}.largest_margin_micro", "is not in the largest bin of the marks")
    found = judge_sample(profile, sample.tokens, sample.marks)
    if found.violation is not None:
        return Fault(
            f"{SAMPLE}.outcome", f"does not follow from the marks: {found.violation.reason}"
        )
    if found.abstained != sample.abstained:
        return Fault(f"{SAMPLE}.abstained", "does not follow from the marks")
    return None


def _largest_fits(sample: SampleVerdict) -> bool:
    """Say whether the largest margin, which is rounded, lies in the largest bin."""
    largest = max((bin for _, _, bin in sample.marks), default=0)
    if largest == 0:
        return sample.largest_margin_micro == 0
    lowest, highest = (
        bin_of(max(0.0, sample.largest_margin_micro + rounding) / 1e6) for rounding in (-0.5, 0.5)
    )
    return lowest <= largest <= highest
