"""What makes a claim void before any arithmetic (the audit, section 2)."""

from collections.abc import Sequence

from protocol.messages import Work


def structural_void(work: Work, ids: Sequence[int]) -> tuple[str, int] | None:
    """Return the rule that ``ids`` break as a sample of ``work`` and where, None where they hold.

    The place is the index of the first id at fault, or the number of ids where some are missing.
    """
    limit, ends = work.sampling.max_tokens, frozenset(work.end_ids)
    for place, token in enumerate(ids):
        if not 0 <= token < work.vocabulary_size:
            return "an id outside the vocabulary", place
        if place >= limit:
            return "more ids than max_tokens", place
        if token in ends and place < len(ids) - 1:
            return "an end id before the last id", place
    if len(ids) < limit and (not ids or ids[-1] not in ends):
        return "fewer ids than max_tokens without an end id", len(ids)
    return None


def count_void(work: Work, samples: Sequence[Sequence[int]]) -> str | None:
    """Return the rule that a result breaks by its number of samples, None where it fits.

    Samples have no names of their own: sample k of a result answers sample k of the work, so one
    that is missing, doubled or was not asked for shows in the number.
    """
    if len(samples) < len(work.samples):
        return "a sample is missing"
    if len(samples) > len(work.samples):
        return "a sample that was not asked for"
    return None


def check_work(work: Work, vocabulary: int) -> None:
    """Refuse work that the model cannot be asked about: then nobody's claim is at fault.

    Raises:
        ValueError: a prompt is empty or holds ids past the model's vocabulary, the draw's
            vocabulary is larger than the model's, or a sample names a prompt that is not there.
    """
    if work.vocabulary_size > vocabulary:
        raise ValueError(f"a draw over {work.vocabulary_size} ids of a model with {vocabulary}")
    if any(not prompt or max(prompt) >= vocabulary for prompt in work.prompts):
        raise ValueError("a prompt without ids or with ids past the model's vocabulary")
    if any(sample.prompt >= len(work.prompts) for sample in work.samples):
        raise ValueError("a sample of a prompt that the work does not have")
