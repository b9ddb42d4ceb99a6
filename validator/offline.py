"""A whole audit without any network: work, claimed tokens and a model in, verdicts out."""

from collections.abc import Iterator, Sequence

from protocol.messages import SampleVerdict, Work
from scoring.profile import Profile
from validator.audit import PACK_TOKENS, Samples, audit_by
from validator.forward import Forward
from validator.judge import Progress, judge


def audit(
    work: Work,
    samples: Sequence[Sequence[int]],
    forward: Forward,
    profile: Profile,
    *,
    pack_tokens: int = PACK_TOKENS,
    progress: Progress = lambda tokens: None,
) -> list[SampleVerdict]:
    """Return the verdict on every sample of ``work``, in its order.

    Args:
        work: the unit, from a lease or from receipts.
        samples: what was claimed: ids of ``work.samples[k]`` at k.
        forward: the work's model at its revision.
        profile: the honest margins of the miner's stack before this forward's.
        pack_tokens: tokens that the forward computes at once.
        progress: called with the number of tokens judged since its last call.
    """

    def judged(part: Samples, budget: int) -> Iterator[tuple[int, SampleVerdict]]:
        return judge(forward, work, part, profile, budget, progress)

    return audit_by(work, samples, forward.vocabulary_size, judged, pack_tokens)
