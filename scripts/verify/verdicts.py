"""A verdict held to itself: what can be told of it without the model."""

from itertools import pairwise

from protocol.messages import SampleVerdict
from protocol.receipts import Fault, SampleReceipt
from scoring.profile import Profile, bin_of
from scoring.weighing import judged_by, weighing_fault

SAMPLE = "verdict.sample"


def verdict_fault(receipt: SampleReceipt) -> Fault | None:
    """Return how a delivered sample's verdict contradicts its sample, its rule or itself.

    It is weighed again from its marks where rule and profile are those of this version.
    """
    sample, ids = receipt.verdict.sample, receipt.token_ids
    if sample.outcome != "verified":
        return Fault(f"{SAMPLE}.outcome", "is not 'verified'")
    if sample.tokens != len(ids):
        return Fault(f"{SAMPLE}.tokens", f"is {sample.tokens} for {len(ids)} ids")
    if not len(sample.marks) <= sample.mismatches <= sample.tokens:
        return Fault(f"{SAMPLE}.mismatches", "is below the number of marks or above tokens")
    if (sample.reason, sample.position) != (None, None):
        return Fault(f"{SAMPLE}.reason", "is there although the sample is verified")
    profile = known_profile(receipt)
    return None if profile is None else _weighing_fault(sample, profile)


def known_profile(receipt: SampleReceipt) -> Profile | None:
    """Return the profile that a verdict was reached by, where it is this version's for the stacks.

    A later or earlier version may judge by another rule or profile; that is no fault.
    """
    verdict = receipt.verdict
    model = str(receipt.lease.statement.get("model"))
    stacks = (receipt.result.stack, verdict.stack)
    try:
        return judged_by(verdict.rule, verdict.profile, model, *stacks)
    except ValueError:
        return None


def _weighing_fault(sample: SampleVerdict, profile: Profile) -> Fault | None:
    positions = [position for position, _, _ in sample.marks]
    if any(here >= after for here, after in pairwise([*positions, sample.tokens])):
        return Fault(f"{SAMPLE}.marks", "are no rising positions within the sample")
    if not _largest_fits(sample):
        return Fault(f"{SAMPLE}.largest_margin_micro", "is not in the largest bin of the marks")
    # Without marks there is nothing to weigh but whether the sample abstained.
    weighed = weighing_fault(sample, profile) if sample.marks or sample.abstained else None
    return None if weighed is None else Fault(f"{SAMPLE}.marks", f"the verdict {weighed}")


def _largest_fits(sample: SampleVerdict) -> bool:
    """Say whether the largest margin, which is rounded, lies in the largest bin."""
    largest = max((bin for _, _, bin in sample.marks), default=0)
    if largest == 0:
        return sample.largest_margin_micro == 0
    lowest, highest = (
        bin_of(max(0.0, sample.largest_margin_micro + rounding) / 1e6) for rounding in (-0.5, 0.5)
    )
    return lowest <= largest <= highest
