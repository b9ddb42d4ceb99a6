"""The audit of a unit around the judging: structure first, a second try where a forward fails."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from protocol.messages import SampleVerdict, Work
from validator.forward import ForwardFailed
from validator.structure import check_work, count_void, structural_void
from validator.verdicts import failure, refusal

# Tokens that a forward computes at once.
PACK_TOKENS = 4_096
# After a failure every prompt is tried by itself in packs that are smaller by this.
RETRY_FACTOR = 8

Samples = Mapping[int, Sequence[int]]
Judge = Callable[[Samples, int], Iterator[tuple[int, SampleVerdict]]]


def audit_by(
    work: Work,
    samples: Sequence[Sequence[int]],
    vocabulary: int,
    judged: Judge,
    pack_tokens: int = PACK_TOKENS,
) -> list[SampleVerdict]:
    """Return the verdict on every sample of ``work``, however the judging is done.

    A forward that fails is tried again on one prompt at a time, in smaller packs; samples that
    fail there too are inconclusive, never void.

    Args:
        work: the unit.
        samples: what was claimed.
        vocabulary: rows of the model's output head.
        judged: yields verdicts on samples of legal structure; may raise ``ForwardFailed``.
        pack_tokens: tokens that the forward computes at once.
    """
    if (reason := count_void(work, samples)) is not None:
        return [refusal(reason, _length(samples, k), None) for k in range(len(work.samples))]
    verdicts: dict[int, SampleVerdict] = {}
    for index, ids in enumerate(samples):
        if (found := structural_void(work, ids)) is not None:
            verdicts[index] = refusal(found[0], len(ids), found[1])
    try:
        check_work(work, vocabulary)
    except ValueError as error:
        reason = f"the unit does not fit the model: {error}"
        return [verdicts.get(k) or failure(reason, len(samples[k])) for k in range(len(samples))]
    _judge_all(work, samples, judged, pack_tokens, verdicts)
    return [verdicts[index] for index in range(len(samples))]


def _judge_all(
    work: Work,
    samples: Sequence[Sequence[int]],
    judged: Judge,
    pack_tokens: int,
    verdicts: dict[int, SampleVerdict],
) -> None:
    """Add a verdict on every sample that has none."""
    if _attempt(_open(samples, verdicts), pack_tokens, judged, verdicts) is None:
        return
    smaller = max(1, pack_tokens // RETRY_FACTOR)
    for prompt in range(len(work.prompts)):
        part = {
            index: ids
            for index, ids in _open(samples, verdicts).items()
            if work.samples[index].prompt == prompt
        }
        if (reason := _attempt(part, smaller, judged, verdicts)) is not None:
            for index, ids in part.items():
                verdicts.setdefault(index, failure(reason, len(ids)))


def _open(samples: Sequence[Sequence[int]], verdicts: Mapping[int, SampleVerdict]) -> Samples:
    return {index: ids for index, ids in enumerate(samples) if index not in verdicts}


def _attempt(
    part: Samples, budget: int, judged: Judge, verdicts: dict[int, SampleVerdict]
) -> str | None:
    """Add the verdicts that come; return why some are missing, None where none is."""
    if not part:
        return None
    try:
        for index, verdict in judged(part, budget):
            verdicts[index] = verdict
    except ForwardFailed as error:
        return f"the forward failed: {error}"
    return None


def _length(samples: Sequence[Sequence[int]], index: int) -> int:
    return len(samples[index]) if index < len(samples) else 0
