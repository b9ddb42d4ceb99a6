"""The structural rules of a result (the audit, section 2): whatever breaks one is refused whole."""

from collections.abc import Sequence

from protocol.messages import Work


def fault(work: Work, samples: Sequence[Sequence[int]]) -> str | None:
    """Return the first rule that a result breaks, naming the sample; None where it breaks none."""
    if len(samples) != len(work.samples):
        return f"the unit has {len(work.samples)} samples, the result {len(samples)}"
    ends = frozenset(work.end_ids)
    for place, ids in enumerate(samples):
        broken = _sample_fault(ids, work.vocabulary_size, work.sampling.max_tokens, ends)
        if broken is not None:
            return f"sample {place}: {broken}"
    return None


def _sample_fault(
    ids: Sequence[int], vocabulary_size: int, max_tokens: int, ends: frozenset[int]
) -> str | None:
    if not ids:
        return "it has no token ids"
    if max(ids) >= vocabulary_size:
        return f"id {max(ids)} is outside 0 .. {vocabulary_size - 1}"
    if min(ids) < 0:
        return f"id {min(ids)} is outside 0 .. {vocabulary_size - 1}"
    if len(ids) > max_tokens:
        return f"it has {len(ids)} ids, max_tokens is {max_tokens}"
    early = next((at for at, value in enumerate(ids[:-1]) if value in ends), None)
    if early is not None:
        return f"the end id {ids[early]} at position {early} is not its last"
    if len(ids) < max_tokens and ids[-1] not in ends:
        return f"it stops after {len(ids)} of {max_tokens} ids without an end id"
    return None
