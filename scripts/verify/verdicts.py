"""A verdict held to itself: what can be told of it without the model."""

from collections.abc import Sequence

from protocol.receipts import Fault, VerdictPart


def verdict_fault(verdict: VerdictPart, token_ids: Sequence[int]) -> Fault | None:
    """Return how a delivered sample's verdict contradicts its sample or itself."""
    sample = verdict.sample
    if sample.outcome != "verified":
        return Fault("verdict.sample.outcome", "is not 'verified'")
    if sample.tokens != len(token_ids):
        return Fault("verdict.sample.tokens", f"is {sample.tokens} for {len(token_ids)} ids")
    if sample.mismatches > sample.tokens:
        return Fault("verdict.sample.mismatches", f"is above {sample.tokens} tokens")
    if sample.reason is not None or sample.position is not None:
        return Fault("verdict.sample.reason", "is there although the sample is verified")
    return None
